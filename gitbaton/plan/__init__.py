"""Plans as people write them: tasks.md, read and ticked losslessly, and the OpenSpec folders."""
