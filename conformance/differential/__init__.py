"""The differential harness: it sends one seeded sequence of raw requests to two brokers, and compares their answers.

A *sequence* (``generate``) is a list of *steps* (``step``). A step has an actor, a verb and options. Options name
things instead of holding them ("my member id", "the epoch before mine"). So the same step means the same to two brokers
that hand out different ids. A *world* (``world``) is one broker's side of a sequence: it turns a step into a request
(``requests``) and remembers what the replies said. A *duel* (``duel``) sends every step to both sides. It waits for
both replies, or for none where the request waits for another member. It compares (``compare``) the replies after ids,
times and names are normalised (``normal``). The first difference ends a duel. The harness repeats the duel in slow
motion, shortens the sequence (``shrink``), and looks the difference up in the table of docs/differences.md
(``accepted``). With ``--acls``, users send the steps, and other steps change ACLs meanwhile (``guarded``).

``python -m conformance.differential --sequences 2400 --seed 1``
``python -m conformance.differential --sequences 200 --acls``
"""
