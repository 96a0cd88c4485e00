"""Attribution: players, coalitions, estimators, value functions; no file, model or money."""
