"""``make demo``: the tour."""

from examples.demo.tour import main

raise SystemExit(main())
