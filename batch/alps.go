package batch

import "remshell/usererr"

// alps describes Cray's ALPS. ALPS itself lists no hosts. It runs inside another batch system, which lists them and
// comes earlier in Systems (rule RM-1).
var alps = System{
	Name: "alps", Title: "ALPS",

	Variable: "ALPS_APP_ID",
	Inside:   func(w Inputs) bool { return w.set("ALPS_APP_ID") || w.set("BASIL_RESERVATION_ID") },
	Job:      func(Inputs) string { return "" },
	Hosts: func(Inputs, Options) (Allocation, error) {
		return Allocation{}, &usererr.Error{Text: "ALPS does not list the hosts of its jobs", Remedy: remedyNameHosts}
	},
	OfRank: []string{"ALPS_*"},
}
