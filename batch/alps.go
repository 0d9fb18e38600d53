package batch

import "remshell/usererr"

// alps is Cray's ALPS. It lists no hosts. It runs inside another batch system, whose row in Systems comes
// first and lists them (rule RM-1).
var alps = System{
	Name: "alps", Title: "ALPS",

	Variable: "ALPS_APP_ID",
	Inside:   func(w Inputs) bool { return w.set("ALPS_APP_ID") || w.set("BASIL_RESERVATION_ID") },
	Job:      func(Inputs) string { return "" },
	Hosts: func(Inputs, Options) (Allocation, error) {
		return Allocation{}, &usererr.Error{Text: "inside an ALPS job: ALPS does not list its hosts", Remedy: remedyNameHosts}
	},
	OfRank: []string{"ALPS_*"},
}
