"""The HTML report: one file with stored runs, one run or a comparison of several.

page              the file: sections, style, script and content security policy
build             the report of one, two or more runs as blocks
run_page, comparison_page, leaderboard_page
                  the verdict and sections of one run, of two, of more
blocks            the content of a section: text, tables, figures
stored_run        the stored data of a run, each part read once
markdown_report   the same sections as Markdown
browser           the packed queries of the runs, and the script that shows them
"""
