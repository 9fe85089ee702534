"""The report for people and machines: terminal, HTML, JUnit."""
