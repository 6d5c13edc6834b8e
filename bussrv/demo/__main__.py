"""``make demo``: the tour."""

from bussrv.demo.tour import main

raise SystemExit(main())
