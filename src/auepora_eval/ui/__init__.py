"""The workbench: stored runs as pages in the browser, served by ``auepora ui``.

``workbench``   the store, a bounded cache, templates and error pages
``page_request``  requests to pages, their parameters and form fields read by type, routes
``security``    access by token and cookie, checks of Host, Origin and CSRF token, response headers
``server``      the application with the routes of all pages, and the server
``runs_page``   the list of runs; ``run_filter``, ``run_table`` and ``run_trend`` its conditions, rows and trend
``run_page``    one run: ``run_head`` what is wrong and why, ``run_rows`` its metrics, ``run_tabs`` the parts
``compare_page``  two or more runs; ``compare_card`` the numbers of two
``query_list``  the queries of one or two runs, with filters; ``reading`` their texts with marks,
                ``difference_strip`` how much two runs differ on them
``groups_page``  wrong answers grouped by terms
``numbers``     values, differences and times as pages show them
``query_page``  one query
``live_page``   runs in progress, and plans
``review_page``  lists that need a person, and sets of samples

Pages compute no statistics: numbers come from ``report`` and ``compare``.
"""
