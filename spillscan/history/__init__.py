"""Datasets of builds over time: audits that fill them, and queries of metrics and regressions.

In: builds, folders and stores of build outputs. Out: datasets; query results, series of metrics, regressions.
"""
