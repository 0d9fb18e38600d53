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

/*
This file turns the hosts of -host and -hostfile into candidates (cli.md 4.1):

	text --hostlist--> entries --mergeEntry--> one entry for each host --candidateOf--> job.NodeDef

The table shows the further steps for a host, and its names in each step, for "node02" on the command line:

	hostlist.Entry   Host node02                 HostExpr of the option table
	job.NodeDef      Name node02, Host node02    candidateOf; Name is the Alias of an Entry that has one
	    | launch.Run, reserve.connectAll: all candidates at once; node.Connector.Connect, ToHost
	transport.Host   Name node02, Alias node02   Transports.Dial: this machine? then LocalChild, else SSH
	    | transport.SSH.dial; Resolve is the function of cli.newSSHResolver
	sshx.Target      Alias node02, HostName 10.0.0.2, Port, User: of ssh_config, unless the entry sets them
	    | sshx.Dialer.Dial: addresses, permit of the Pacer, TCP, login
	sshx.Session     /bin/sh on the host; transport.HelperBinary.deliver has it run mpiexec --helper
	    | the helper's first byte
	node.Node        Connector.receiveHello: Hello, NodeInfo
*/

// appHosts returns the hosts of an app context, which come from a list (-host), a file (-hostfile), or both. With both,
// these are the hosts of the file that are also in the list (rule HOST-9). If unique is true, only the first entry of
// each host is used (rule HOST-4).
func (w Inputs) appHosts(s option.AppContext, open func(string) (io.ReadCloser, error), unique bool) ([]hostlist.Entry, error) {
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
		if v := g.Variable(); v != "" && !errors.As(err, &syntax) { // a SyntaxError names the file itself
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

// checkTrustedEntries returns an error if entries of a host file set programs or variables, and another user can write
// the file (rule TRUST-27).
func (w Inputs) checkTrustedEntries(entries []hostlist.Entry) error {
	trusted := make(map[string]bool) // trusted files
	for _, e := range entries {
		key := ""
		switch {
		case e.Line == 0 || trusted[e.File]:
		case e.Attrs["path"] != "":
			key = "path="
		case len(e.Env) > 0:
			key = "env="
		}
		if key == "" {
			continue
		}
		if err := w.CheckTrust(e.File); err != nil {
			return option.UntrustedError(err, key, "")
		}
		trusted[e.File] = true
	}
	return nil
}

// checkAttr checks an attribute in a host file. It is passed to package hostlist as a hostlist.AttrCheck.
func checkAttr(key, value string) error {
	switch {
	case key == "binding":
		return checkBinding(value)
	case key == "type" && len(splitFeatures(value)) == 0:
		return errors.New("the list of features is empty")
	}
	return nil
}

// checkBinding returns an error unless value is a binding that a host entry can set. A host entry can set all values of
// --bind-to except those that concern the whole job.
func checkBinding(value string) error {
	var b pin.Binding
	if err := b.UnmarshalText([]byte(value)); err != nil {
		return err
	}
	switch {
	case b.Width > 0:
		return fmt.Errorf("ranks must have the same number of CPUs on all hosts; use -tpp %d", b.Width)
	case b.Report:
		return errors.New("\"report\" works only for all hosts, not for one of them; use --report-bindings")
	}
	return nil
}

// splitFeatures splits the value of the attribute "type" into features.
func splitFeatures(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// featuresOf returns the features of all entries, sorted and without duplicates.
func featuresOf(named []hostlist.Entry) (features []string) {
	for _, e := range named {
		features = append(features, splitFeatures(e.Attrs["type"])...)
	}
	slices.Sort(features)
	return slices.Compact(features)
}

// candidatesOf returns each host of -host and -hostfile once, in the order of each host's first entry. If several app
// contexts give slots to a host, the slots are added up. Settings of the cluster file are applied.
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

// mergeEntry merges the entry of another app context for the same host into e. Slots are added up (rule
// HOST-4).
func mergeEntry(e *hostlist.Entry, other hostlist.Entry) error {
	if (e.Slots == 0) != (other.Slots == 0) {
		return &usererr.Error{Text: fmt.Sprintf("host %s has a slot count in one app context but not in another", e.Label()), Remedy: "give the slot count in all app contexts, or in none"}
	}
	both, err := hostlist.MergeEntries(*e, other)
	both.Slots = e.Slots + other.Slots
	*e = both
	return err
}

// candidateOf converts a host entry to a candidate host. If noFork is true, this machine is reached by ssh, like any
// other host.
func candidateOf(id int, e hostlist.Entry, local Localhost, noFork bool) job.NodeDef {
	target := e.Host
	if e.Address != "" {
		target = e.Address
	}
	def := job.NodeDef{
		ID: id, Name: e.Label(), Host: e.Host, Address: e.Address, User: e.User, Port: e.Port,
		Interface: e.Attrs["iface"], SeparateNode: e.Alias != "", Slots: e.Slots, MaxSlots: e.MaxSlots, Origin: entryLocation(e),
		Local: !noFork && e.User == "" && e.Port == 0 && local.Matches(target),
		Env:   e.Env, HelperPath: e.Attrs["path"], NodePolicy: job.NodePolicy{Features: splitFeatures(e.Attrs["type"])},
	}
	if text := e.Attrs["binding"]; text != "" {
		def.Bind = new(pin.Binding)
		def.Bind.UnmarshalText([]byte(text)) // checked before
	}
	return def
}

// entryLocation returns the file and line of an entry, for messages.
func entryLocation(e hostlist.Entry) string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

// checkEntryGPUs returns an error if both a host entry and -gpus-per-proc set the GPUs of ranks.
func checkEntryGPUs(req job.Request) error {
	if !slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs != 0 }) {
		return nil
	}
	for _, n := range req.Nodes {
		for _, assignment := range n.Env {
			if name, _, _ := strings.Cut(assignment, "="); slices.Contains(gpu.Variables, name) {
				return &usererr.Error{Text: fmt.Sprintf("-gpus-per-proc cannot be used with env=%s of host %s (%s)", name, n.Name, n.Origin), Remedy: "use only one of them"}
			}
		}
	}
	return nil
}
