"""One form for queries of equal meaning, whatever their spelling; from it, blocks and fingerprints.

relation --flatten--> select-project-join cores over nodes --settle--> predicates where they belong, nodes simplified
         --build--> canonical blocks --blocks--> with the view's names;  fingerprint: the hash of their keys

expressions, predicates    one spelling for values, and for conditions (of which only TRUE counts)
subsume                    whether the rows of one block can be read from those of another
"""
