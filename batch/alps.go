package batch

import "remshell/usererr"

// ALPS has no list: its hosts are those of a batch system around it, which comes before it in the
// table (RM-1).
var alps = System{
	Name: "alps", Title: "ALPS",

	Variable: "ALPS_APP_ID",
	Inside:   func(w World) bool { return w.set("ALPS_APP_ID") || w.set("BASIL_RESERVATION_ID") },
	Job:      func(World) string { return "" },
	Hosts: func(World, Wish) (Allocation, error) {
		return Allocation{}, &usererr.Error{Text: "inside alps, which has no host list", Remedy: elsewhere}
	},
	OfRank: []string{"ALPS_*"},
}
