"""Labelling: people grade answers of a stored run in a terminal form, and their labels go to a file.

============= =========================================================================================
module        contents
============= =========================================================================================
draw          a random draw of samples, stratified on request
draw_file     the record of a draw, next to the label file
items         what a person is shown of a sample, read from the store
session       the form as a state machine: keys in, state and labels out; independent of the terminal
terminal_text text in terminal cells: wide characters, wrapping, no control characters
view          the screen lines of a state
keys          decoding of keyboard bytes into keys
terminal      taking over the screen and restoring it
label_file    the label file of a session
form          the main loop of the form
line_form     the form line by line, for pipes and screen readers
human_labels  which labels count, and the aggregation of several labels
annotators    labels grouped by annotator
agreement     agreement between annotators
============= =========================================================================================
"""
