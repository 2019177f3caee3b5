"""The stages wired together: read this first.

Doors (commands, HTTP, Python) call these functions and show what they return.

    project      a project folder -> Catalogue                    declare/; databases only when asked to connect
    checking     finds mistakes: project, plan document, machine  plan/check/ shares no code with the planner
    forcing      refused contracts that run all the same          how fresh they are planned to be
    planning     project -> Plan, from its files or on a running plan   plan/make.py
    explaining   a name -> why it is planned as it is; "what if"  plan/explain.py

    preparing    project and running plan -> the next plan        forced contracts included
    running      keeps a project's promises until told to stop    coordinate/host.py, connect/spark
    detached     runs a project in a separate process
    asking       asks the running service to stop, or to apply the project's files
    reading      status, rows, changes and audit of a project     .headrace/
    demo         the sample apps with databases and load, kept fresh by what `running` starts

    feeds        which pairs to store ahead                       plan/feeds/: an instance or tables, no project
    placing      which views run on devices                       plan/place/: an instance or tables, no project

A door imports the module of its command only when it is called. So no command waits for the imports of another, and
checking a project needs neither a database driver nor Spark. This file stays empty for the same reason.
"""
