"""The task tree, as tests read it."""

import trio


def all_tasks():
    """Every task below the root, ours or not."""
    todo = [trio.lowlevel.current_root_task()]
    while todo:
        task = todo.pop()
        yield task
        for nursery in task.child_nurseries:
            todo.extend(nursery.child_tasks)


def task_names():
    return [task.name for task in all_tasks()]
