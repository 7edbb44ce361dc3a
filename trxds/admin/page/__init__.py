"""The page in a browser that shows what a program's channels do while they do it.

It looks and never touches, and while nobody has it open it costs nothing. `page_bundle` says what the page is, `viewer`
how a slow browser is kept from slowing anything else, `explain_request` what it may ask.
"""
