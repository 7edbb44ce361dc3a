"""What a running program's channels do, as one snapshot and numbered changes: for commands, and the live page.

It looks at the rooms below and none of them knows it. While nobody watches there is no task and no hook.
"""
