package request

import (
	"strconv"

	"remshell/cli/option"
	"remshell/plan/nodeset"
	"remshell/psi"
)

// flags are the placement options of a line as package psi knows them: nil where
// nothing was said.
func flags(j option.Job, s option.Section) psi.Flags {
	f := psi.Flags{
		Nodes: said(j.Nodes), Sort: said(j.Sort), Map: said(j.CPUMap), TPP: said(s.TPP), Types: said(s.NodeType),
		Unique: toggled(j.HostsUnique), Exclusive: toggled(j.Exclusive), Overbook: toggled(j.Overbook),
		Share: j.Overbook == "share",
		Loop:  toggled(j.Loop), Wait: toggled(j.Wait.Text), Pin: toggled(j.Pin), MemBind: toggled(j.MemBind),
	}
	if f.Share {
		f.Overbook = nil
	}
	f.Choosing = choosing(j, s)
	if _, ok := s.Origin("ppn"); ok {
		f.PPN = said(strconv.Itoa(s.PPN))
	}
	return f
}

// choosing are the options about which nodes a job gets.
func choosing(j option.Job, s option.Section) psi.Choosing {
	c := psi.Choosing{
		Sets:  nodeset.Level{Spec: said(j.NodeSet), Said: make(map[string]string)},
		Class: said(j.Class), NodeAlloc: said(j.NodeAlloc), ReserveCPUs: said(j.ReserveCPUs), MemPerRank: said(j.MemPerRank), Contiguous: said(j.Contiguous),
		Shape: said(s.Shape), PerNUMA: said(s.EachNUMA), NUMANodes: said(s.NUMANodes), NUMAList: said(s.NUMAList), HWThreads: said(s.HWThreads),
	}
	for key, value := range map[string]string{nodeset.KeyOptional: j.SetOptional, nodeset.KeyTolerance: j.SetTolerance, nodeset.KeyPriority: j.SetPriority,
		nodeset.KeyPlus: j.SetPlus, nodeset.KeyDelay: j.SetDelay} {
		if value != "" {
			c.Sets.Said[key] = value
		}
	}
	if s.StrictMem {
		c.StrictMem = &s.StrictMem
	}
	return c
}

// said is a value that was given; options have no empty values.
func said(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// toggled is a switch with a --no- form.
func toggled(value string) *bool {
	if value == "" {
		return nil
	}
	on := value != "no"
	return &on
}
