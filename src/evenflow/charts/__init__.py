"""Interactive charts for pages: scripts and styles that are part of the page, nothing from a network.

The charts are drawn by uPlot 1.6.32 (MIT licence, beside it in ``static/``).
"""
