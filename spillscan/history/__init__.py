"""Builds over time: a dataset of kept builds, questions to it, and audits that fill it from many files.

In: builds, folders and stores of build outputs. Out: datasets; answers, series and the builds where they turn.
"""
