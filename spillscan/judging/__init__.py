"""Checks of builds: comparison, rules with their limits, policy, baseline, and the verdict.

Input: builds, policies, baselines. Output: changes, findings, gaps, and the verdict that sets the exit status.
"""
