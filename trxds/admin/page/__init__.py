"""The page in a browser that shows what a program's channels do while they do it.

The page only reads, and it costs nothing while nobody has it open. `page_bundle` makes the document, `viewer` keeps a
slow browser from slowing anything else, and `explain_request` answers the page's questions.
"""
