package request

import (
	"strconv"

	"remshell/cli/option"
	"remshell/psi"
)

// flags are the placement options of a line as package psi knows them: nil where
// nothing was said.
func flags(j option.Job, s option.Section) psi.Flags {
	f := psi.Flags{
		Nodes: said(j.Nodes), Sort: said(j.Sort), Map: said(j.CPUMap), TPP: said(s.TPP), Types: said(s.NodeType),
		Unique: toggled(j.HostsUnique), Exclusive: toggled(j.Exclusive), Overbook: toggled(j.Overbook),
		Loop: toggled(j.Loop), Wait: toggled(j.Wait.Text), Pin: toggled(j.Pin), MemBind: toggled(j.MemBind),
	}
	if _, ok := s.Origin("ppn"); ok {
		f.PPN = said(strconv.Itoa(s.PPN))
	}
	return f
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
