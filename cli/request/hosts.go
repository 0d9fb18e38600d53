package request

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/usererr"
)

// This file makes candidates of what -host and -hostfile say of hosts (cli.md 4.1):
//
//	text --hostlist--> entries --checked--> one for each host --candidate--> job.NodeDef

// sectionHosts lists what a section names: the list, the file, or what the list takes of
// the file (HOST-9). With unique, only the first mention of a host counts (HOST-4).
func (w Inputs) sectionHosts(s option.AppContext, open func(string) (io.ReadCloser, error), unique bool) ([]hostlist.Entry, error) {
	join := hostlist.Join
	if unique {
		join = func(entries []hostlist.Entry) ([]hostlist.Entry, error) {
			return hostlist.Join(hostlist.Unique(entries))
		}
	}
	var list []hostlist.Entry
	for _, expr := range s.Host {
		list = append(list, expr...)
	}
	if s.HostFile == "" {
		return join(list)
	}
	entries, err := hostlist.ReadFile(s.HostFile, open, checkAttr)
	if err != nil {
		g, _ := s.Origin("hostfile")
		var syntax *hostlist.SyntaxError
		if v := g.Variable(); v != "" && !errors.As(err, &syntax) { // those name the file
			err = fmt.Errorf("%s: %w", v, err)
		}
		return nil, err
	}
	if err := w.checkTrustedEntries(entries); err != nil {
		return nil, err
	}
	file, err := join(entries)
	if err != nil || len(list) == 0 {
		return file, err
	}
	if unique {
		list = hostlist.Unique(list)
	}
	return hostlist.Filter(file, list)
}

// checkTrustedEntries refuses what entries of a host file say of programs and variables if another user may have
// written it: that is code (TRUST-27).
func (w Inputs) checkTrustedEntries(entries []hostlist.Entry) error {
	looked := make(map[string]bool) // files that may be obeyed
	for _, e := range entries {
		key := ""
		switch {
		case e.Line == 0 || looked[e.File]:
		case e.Attrs["path"] != "":
			key = "path="
		case len(e.Env) > 0:
			key = "env="
		}
		if key == "" {
			continue
		}
		if err := w.CheckTrust(e.File); err != nil {
			return option.UntrustedError(err, key+" in it", "")
		}
		looked[e.File] = true
	}
	return nil
}

// checkAttr is the hostlist.AttrCheck of host files.
func checkAttr(key, value string) error {
	switch {
	case key == "binding":
		return checkBinding(value)
	case key == "type" && len(splitFeatures(value)) == 0:
		return errors.New("no feature is named")
	}
	return nil
}

// checkBinding says why a host cannot bind its ranks so. It can as --bind-to says, but for what
// concerns the job as a whole.
func checkBinding(value string) error {
	var b pin.Binding
	if err := b.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	switch {
	case b.Width > 0:
		return fmt.Errorf("how many CPUs a rank has is one for all hosts: -tpp %d", b.Width)
	case b.Report:
		return errors.New("report is for all hosts: --report-bindings")
	}
	return nil
}

// splitFeatures are the features of "type=".
func splitFeatures(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// featuresOf are those of all entries.
func featuresOf(named []hostlist.Entry) (features []string) {
	for _, e := range named {
		features = append(features, splitFeatures(e.Attrs["type"])...)
	}
	slices.Sort(features)
	return slices.Compact(features)
}

// candidatesOf are the hosts of -host and -hostfile, each once, in the order of first
// mention; what several sections offer of one adds up. What the cluster file says of
// them holds.
func (w Inputs) candidatesOf(named []hostlist.Entry, j option.JobOptions) ([]job.NodeDef, error) {
	var all []hostlist.Entry
	known := make(map[string]int) // index in all, by name
	for _, e := range named {
		i, twice := known[e.Label()]
		if !twice {
			known[e.Label()] = len(all)
			all = append(all, e)
			continue
		}
		if err := mergeEntry(&all[i], e); err != nil {
			return nil, err
		}
	}
	cluster := w.nodesByName()
	given := w.sshAllocation(j.RMK)
	nodes := make([]job.NodeDef, len(all))
	for i, e := range all {
		nodes[i] = candidateOf(i, e, w.Local, j.NoAutofork)
		if given != nil && !nodes[i].Local {
			if host, held := findAllocated(given, e.Host); held {
				nodes[i].BatchDir = job.BatchDir{LocalPath: given.Folder, NodePath: host.Folder}
			}
		}
		if e.Slots == 0 && j.Slots > 0 {
			nodes[i].Slots = j.Slots
			if e.MaxSlots > 0 {
				nodes[i].Slots = min(j.Slots, e.MaxSlots)
			}
		}
		if k, ok := cluster[strings.ToLower(e.Host)]; ok {
			w.applyNodeConfig(&nodes[i], w.Cluster.Nodes[k], j.NoAutofork)
		}
	}
	return nodes, nil
}

// mergeEntry adds what a further section says of a host: counts add up (HOST-4).
func mergeEntry(e *hostlist.Entry, other hostlist.Entry) error {
	if (e.Slots == 0) != (other.Slots == 0) {
		return &usererr.Error{Text: fmt.Sprintf("host %s has a slot count in one app context and none in another", e.Label()), Remedy: "use one way"}
	}
	both, err := hostlist.MergeEntries(*e, other)
	both.Slots = e.Slots + other.Slots
	*e = both
	return err
}

// candidateOf is a host entry as a node to be reached.
func candidateOf(id int, e hostlist.Entry, here Localhost, noFork bool) job.NodeDef {
	reach := e.Host
	if e.Address != "" {
		reach = e.Address
	}
	def := job.NodeDef{
		ID: id, Name: e.Label(), Host: e.Host, Address: e.Address, User: e.User, Port: e.Port,
		Interface: e.Attrs["iface"], SeparateNode: e.Alias != "", Slots: e.Slots, MaxSlots: e.MaxSlots, Origin: entryLocation(e),
		Local: !noFork && e.User == "" && e.Port == 0 && here.Matches(reach),
		Env:   e.Env, HelperPath: e.Attrs["path"], NodePolicy: job.NodePolicy{Features: splitFeatures(e.Attrs["type"])},
	}
	if text := e.Attrs["binding"]; text != "" {
		def.Bind = new(pin.Binding)
		def.Bind.UnmarshalText([]byte(text)) // it is well formed
	}
	return def
}

// entryLocation says where an entry stands.
func entryLocation(e hostlist.Entry) string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

// checkEntryGPUs refuses, as devices does, an entry of a host file that says which GPUs its ranks
// see.
func checkEntryGPUs(req job.Request) error {
	if !slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs != 0 }) {
		return nil
	}
	for _, n := range req.Nodes {
		for _, assignment := range n.Env {
			if name, _, _ := strings.Cut(assignment, "="); slices.Contains(gpu.Variables, name) {
				return &usererr.Error{Text: fmt.Sprintf("-gpus-per-proc contradicts env=%s of host %s (%s)", name, n.Name, n.Origin), Remedy: "keep one"}
			}
		}
	}
	return nil
}
