"""The stages wired together: read this first.

Doors (commands, HTTP, Python) call these functions and show what they return.

    project      a project folder -> Catalogue                    declare/; databases only when asked to connect
    checking     what is wrong: project, plan document, machine   plan/check/ shares no code with the planner
    forcing      refused contracts that are kept all the same     how fresh they are planned to be
    planning     project -> Plan; compared with, or on what runs  plan/make.py
    explaining   a name -> why it is planned so; "what if"        plan/explain.py

    preparing    project, what runs -> the plan to go over to     forced contracts included
    running      keeps a project's promises until told to stop    service/host.py, connect/spark
    detached     starts that in a process of its own
    asking       the process that runs: to end, to go over to the project's plan
    reading      what runs or ran: status, rows, changes, audit   .headrace/
    demo         the sample apps with databases, load and service

    feeds        which pairs to store ahead                       plan/feeds/: an instance or tables, no project
    placing      which views run on devices                       plan/place/: an instance or tables, no project

A door imports the module of its command, when it is called: none waits for what others need, and checking a project
needs neither a database driver nor Spark. This file stays empty for the same reason.
"""
