package request

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/fault"
	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
)

// This file makes candidates of what -host and -hostfile say of hosts (cli.md 4.1):
//
//	text --hostlist--> entries --checked--> one for each host --candidate--> job.NodeDef

// hosts lists what a section names: the list, the file, or what the list takes of
// the file (HOST-9). With unique, only the first mention of a host counts (HOST-4).
func (w World) hosts(s option.Section, open func(string) (io.ReadCloser, error), unique bool) ([]hostlist.Entry, error) {
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
	entries, err := hostlist.ReadFile(s.HostFile, open, meaningless)
	if err != nil {
		g, _ := s.Origin("hostfile")
		var syntax *hostlist.SyntaxError
		if v := g.Variable(); v != "" && !errors.As(err, &syntax) { // those name the file
			err = fmt.Errorf("%s: %w", v, err)
		}
		return nil, err
	}
	if err := w.trusted(entries); err != nil {
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

// trusted refuses what entries of a host file say of programs and variables if another user may have
// written it: that is code (TRUST-27).
func (w World) trusted(entries []hostlist.Entry) error {
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
		if err := w.Trust(e.File); err != nil {
			return option.Untrusted(err, key+" in it", "")
		}
		looked[e.File] = true
	}
	return nil
}

// meaningless is the hostlist.Judge of host files.
func meaningless(key, value string) error {
	switch {
	case key == "binding":
		return bindable(value)
	case key == "type" && len(wordsOf(value)) == 0:
		return errors.New("no feature is named")
	}
	return nil
}

// bindable says why a host cannot bind its ranks so. It can as --bind-to says, but for what
// concerns the job as a whole.
func bindable(value string) error {
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

// wordsOf are the features of "type=".
func wordsOf(value string) []string {
	return strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
}

// featuresOf are those of all entries.
func featuresOf(named []hostlist.Entry) (features []string) {
	for _, e := range named {
		features = append(features, wordsOf(e.Attrs["type"])...)
	}
	slices.Sort(features)
	return slices.Compact(features)
}

// listed are the hosts of -host and -hostfile, each once, in the order of first
// mention; what several sections offer of one adds up. What the cluster file says of
// them holds.
func (w World) listed(named []hostlist.Entry, j option.Job) ([]job.NodeDef, error) {
	var all []hostlist.Entry
	known := make(map[string]int) // index in all, by name
	for _, e := range named {
		i, twice := known[e.Label()]
		if !twice {
			known[e.Label()] = len(all)
			all = append(all, e)
			continue
		}
		if err := more(&all[i], e); err != nil {
			return nil, err
		}
	}
	cluster := w.byName()
	given := w.contacts(j.RMK)
	nodes := make([]job.NodeDef, len(all))
	for i, e := range all {
		nodes[i] = candidate(i, e, w.Local, j.NoAutofork)
		if given != nil && !nodes[i].Local {
			if host, held := find(given, e.Host); held {
				nodes[i].Folder = job.Folder{Here: given.Folder, There: host.Folder}
			}
		}
		if e.Slots == 0 && j.Slots > 0 {
			nodes[i].Slots = j.Slots
			if e.MaxSlots > 0 {
				nodes[i].Slots = min(j.Slots, e.MaxSlots)
			}
		}
		if k, ok := cluster[strings.ToLower(e.Host)]; ok {
			w.configure(&nodes[i], w.Cluster.Nodes[k], j.NoAutofork)
		}
	}
	return nodes, nil
}

// more adds what a further section says of a host: counts add up (HOST-4).
func more(e *hostlist.Entry, other hostlist.Entry) error {
	if (e.Slots == 0) != (other.Slots == 0) {
		return &fault.Error{Text: fmt.Sprintf("host %s has a slot count in one section and none in another", e.Label()), Remedy: "use one way"}
	}
	both, err := hostlist.Both(*e, other)
	both.Slots = e.Slots + other.Slots
	*e = both
	return err
}

// candidate is a host entry as a node to be reached.
func candidate(id int, e hostlist.Entry, here Localhost, noFork bool) job.NodeDef {
	reach := e.Host
	if e.Address != "" {
		reach = e.Address
	}
	def := job.NodeDef{
		ID: id, Name: e.Label(), Host: e.Host, Address: e.Address, User: e.User, Port: e.Port,
		Iface: e.Attrs["iface"], Apart: e.Alias != "", Slots: e.Slots, MaxSlots: e.MaxSlots, Origin: written(e),
		Local: !noFork && e.User == "" && e.Port == 0 && here.Is(reach),
		Env:   e.Env, Helper: e.Attrs["path"], Policy: job.Policy{Features: wordsOf(e.Attrs["type"])},
	}
	if text := e.Attrs["binding"]; text != "" {
		def.Bind = new(pin.Binding)
		def.Bind.UnmarshalText([]byte(text)) // it is well formed
	}
	return def
}

// written says where an entry stands.
func written(e hostlist.Entry) string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return e.File
}

// entryGPUs refuses, as devices does, an entry of a host file that says which GPUs its ranks
// see.
func entryGPUs(req job.Request) error {
	if !slices.ContainsFunc(req.Apps, func(app job.App) bool { return app.GPUs != 0 }) {
		return nil
	}
	for _, n := range req.Nodes {
		for _, assignment := range n.Env {
			if name, _, _ := strings.Cut(assignment, "="); slices.Contains(gpu.Variables, name) {
				return &fault.Error{Text: fmt.Sprintf("-gpus-per-proc contradicts env=%s of host %s (%s)", name, n.Name, n.Origin), Remedy: "keep one"}
			}
		}
	}
	return nil
}
