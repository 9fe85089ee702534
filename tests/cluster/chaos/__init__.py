"""Faults on a running certification, and what must hold whatever the fault.

faults      the table: what is done, when, to whom, and what a report may say of it
scene       one certification that a fault is done to, and what was seen of it
oracle      the rules that every outcome is held against
conductor   who runs when: many certifications side by side, machine-wide faults alone
"""
