package request

import (
	"strconv"

	"remshell/cli/option"
	"remshell/plan/nodeset"
	"remshell/psi"
)

// psiFlags returns the placement options of a command line in the form that package psi needs. A field is nil
// if its option is not given.
func psiFlags(j option.JobOptions, s option.AppContext) psi.Flags {
	f := psi.Flags{
		Nodes: pointerIfGiven(j.Nodes), Sort: pointerIfGiven(j.Sort), CPUMap: pointerIfGiven(j.CPUMap), TPP: pointerIfGiven(s.TPP), Features: pointerIfGiven(s.NodeType),
		HostsUnique: parseToggle(j.HostsUnique), Exclusive: parseToggle(j.Exclusive), Overbook: parseToggle(j.Overbook),
		Oversubscribe: j.Overbook == "share",
		Loop:          parseToggle(j.Loop), Wait: parseToggle(j.Wait.Text), Pin: parseToggle(j.Pin), MemBind: parseToggle(j.MemBind),
	}
	if f.Oversubscribe {
		f.Overbook = nil
	}
	f.SelectionFlags = psiSelectionFlags(j, s)
	if _, ok := s.Origin("ppn"); ok {
		f.PPN = pointerIfGiven(strconv.Itoa(s.PPN))
	}
	return f
}

// psiSelectionFlags returns the node-selection options of a command line, in the form that package psi needs.
func psiSelectionFlags(j option.JobOptions, s option.AppContext) psi.SelectionFlags {
	c := psi.SelectionFlags{
		Sets:  nodeset.Level{Spec: pointerIfGiven(j.NodeSet), Modifiers: make(map[string]string)},
		Class: pointerIfGiven(j.Class), NodeAlloc: pointerIfGiven(j.NodeAlloc), ReserveCPUs: pointerIfGiven(j.ReserveCPUs), MemPerRank: pointerIfGiven(j.MemPerRank), Contiguous: pointerIfGiven(j.Contiguous),
		Shape: pointerIfGiven(s.Shape), PerNUMA: pointerIfGiven(s.EachNUMA), NUMANodes: pointerIfGiven(s.NUMANodes), NUMAList: pointerIfGiven(s.NUMAList), HWThreads: pointerIfGiven(s.HWThreads),
	}
	for key, value := range map[string]string{nodeset.KeyOptional: j.SetOptional, nodeset.KeyTolerance: j.SetTolerance, nodeset.KeyPriority: j.SetPriority,
		nodeset.KeyPlus: j.SetPlus, nodeset.KeyDelay: j.SetDelay} {
		if value != "" {
			c.Sets.Modifiers[key] = value
		}
	}
	if s.StrictMem {
		c.StrictMem = &s.StrictMem
	}
	return c
}

// pointerIfGiven returns a pointer to value. It returns nil if value is empty because the option is not given.
func pointerIfGiven(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// parseToggle parses the value of an option that also has the form --no-NAME. It returns nil if the option is
// not given.
func parseToggle(value string) *bool {
	if value == "" {
		return nil
	}
	on := value != "no"
	return &on
}
