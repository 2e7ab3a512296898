"""Labelling: people are shown answers of a stored run, and what they say becomes a file of labels.

========== ============================================================================================
module     what it holds
========== ============================================================================================
draw       which samples are asked about: a random draw, by stratum where wanted
draw_file  what was drawn from what, beside the labels
items      what a person is shown of a sample, read from the store
session    the form as a state machine: keys in, state and labels out; it knows no terminal
cells      texts as cells of a terminal: wide characters, wrapping, nothing that moves the cursor
view       the lines a terminal shows of a state
keys       the bytes of a keyboard as keys
terminal   the screen, taken over and given back
sheet      the labels file as the state of a session
form       all of it together: the loop
plain      the same line by line
people     which labels count, how annotators agree with each other, and what is made of several labels
annotators what several annotators said, side by side
agreeing   how far they agree
========== ============================================================================================
"""
