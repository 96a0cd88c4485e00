"""Pages, tables and plots for people; functions of their arguments."""
