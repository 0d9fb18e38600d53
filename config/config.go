/*
Package config parses the cluster file, which lists the nodes of the cluster and their settings.

	PSINodesSort = "PROC"

	[[node]]
	name = "node[0001-1000]"        # a thousand equal nodes in one entry
	maxproc = 128

	text --Load--> Cluster: nodes in ascending order of ID, with defaults
	           or: FILE:LINE: what is wrong, all errors at once

The keys are those of placement.md 1.8; doc/cluster.toml explains each key. The package also parses the files with
which root restricts the jobs of one node (NodeFile, LimitsFile, StateFile). It opens no file. Its inputs are the
text of the file, and functions that look up users and groups.
*/
package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"remshell/job"
	"remshell/limits"
	"remshell/sort"
)

// A Cluster holds the content of a cluster file.
type Cluster struct {
	File           string
	Nodes          []job.NodeDef // in ascending order of ID
	Sort           string        // PSINodesSort; empty: not given
	QueueHosts     []string      // names of nodes that may hold the queue; the first one that is reachable does; empty: the nodes with the lowest IDs
	QueueOptional  bool          // queueRequired is no: jobs may start while the queue host is unreachable
	QueueRequired  bool          // queueRequired is yes in the file: jobs must not start on nodes without claims
	Ledger         string        // directory of claims and tickets on every node; empty: the default
	AccountingFile string        // accounting_file, which gets a line for each finished job; empty: none
	Limits         limits.Map    // of each job
	Classes        map[string]Class
	Rules          job.SelectionRules // rules that select the nodes of a job

	Gang job.GangTerms // how jobs with --gang take turns; counts only on the node on which the file is

	Administrators []string // users who may manage jobs of other users, by name or number

	Warnings []error // an *Error for each setting without effect
}

// ClusterFile is the path of the cluster file that applies to all users. Its list of administrators applies only to
// the node on which the file is (rule SV-25).
const ClusterFile = "/etc/remshell/cluster.toml"

// IDs contains the functions that look up the IDs of users and groups. If a function returns an error for a name, no
// user and no group matches the name.
type IDs struct {
	User, Group func(name string) (int, error) // return the number for a name
}

// An Error is an error in a configuration file, or a warning about the file.
type Error struct {
	File string
	Line int // 0: unknown
	Text string
}

func (e *Error) Error() string { return fileLine(e.File, e.Line) + ": " + e.Text }

// fileLine returns "FILE:LINE". If line is 0, the line is unknown, and fileLine returns "FILE".
func fileLine(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// A clusterFile holds a cluster file as decoded from TOML. A field has type any if the file may write its value in
// several ways, for example as a number or as a string.
type clusterFile struct {
	PSINodesSort  string
	QueueHost     string
	QueueHosts    []string
	QueueRequired any
	Ledger        string
	Accounts      string `toml:"accounting_file"`
	Limits        map[string]any
	Gang          map[string]any
	Class         any
	Node          []nodeEntry

	Administrators []string

	NodeSet, NodeAlloc, Domain, Affinity, Region                     any
	NodeSetPolicy, NodeSetAttribute, NodeSetList, NodeSetIsOptional  any // the scheduler's names for node-set defaults
	NodeSetTolerance, NodeSetPriorityType, NodeSetPlus, NodeSetDelay any
	NodeAllocationPolicy                                             any
}

// Load parses the contents of a cluster file. name is the name of the file for messages. The returned error joins one
// *Error for each mistake.
func Load(name, text string, ids IDs) (*Cluster, error) {
	text = strings.TrimPrefix(text, "\ufeff")
	r := &reader{name: name, ids: ids, lines: scanKeyLines(text), text: text, cluster: &Cluster{File: name}}
	var f clusterFile
	decoder := toml.NewDecoder(strings.NewReader(text)).DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return nil, r.syntaxError(err)
	}
	r.entries = make(map[string]int)
	for i := range f.Node {
		r.readNodeEntry(i, &f.Node[i])
	}
	r.readDefaults(&f)
	r.readSelectionRules(&f)
	slices.SortStableFunc(r.errs, byLine)
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	r.cluster.Warnings = r.sortedWarnings()
	slices.SortFunc(r.cluster.Nodes, func(a, b job.NodeDef) int { return cmp.Compare(a.ID, b.ID) })
	return r.cluster, nil
}

// byLine compares two errors by the numbers of their lines.
func byLine(a, b error) int {
	var x, y *Error
	if errors.As(a, &x) && errors.As(b, &y) {
		return cmp.Compare(x.Line, y.Line)
	}
	return 0
}

// A reader converts a decoded configuration file into the result of one of the Load functions. It collects the errors
// in the file.
type reader struct {
	name    string
	ids     IDs
	lines   keyLines
	keys    []string // all allowed keys, for a file without [[node]]; nil: a cluster file
	cluster *Cluster
	nextID  int            // ID of the next node without one
	byID    map[int]string // names of nodes
	byName  map[string]bool
	errs    []error

	warnings map[string]*Error // by text; the first occurrence

	text        string         // of the file
	entries     map[string]int // index of the [[node]] entry by node name
	pendingSets []pendingClassSets
}

func (r *reader) addFault(line int, format string, args ...any) {
	r.errs = append(r.errs, &Error{r.name, line, fmt.Sprintf(format, args...)})
}

// addWarning adds a warning about a line. If several warnings have the same text, only the first in the file is
// kept.
func (r *reader) addWarning(line int, format string, args ...any) {
	w := &Error{r.name, line, fmt.Sprintf(format, args...)}
	if first := r.warnings[w.Text]; first != nil && first.Line <= line {
		return
	}
	if r.warnings == nil {
		r.warnings = make(map[string]*Error)
	}
	r.warnings[w.Text] = w
}

// sortedWarnings returns the warnings, ordered by line.
func (r *reader) sortedWarnings() (all []error) {
	for _, text := range slices.Sorted(maps.Keys(r.warnings)) {
		all = append(all, r.warnings[text])
	}
	slices.SortStableFunc(all, byLine)
	return all
}

// syntaxError adds err, which the TOML decoder has returned, to the errors of the reader. It returns all of them.
func (r *reader) syntaxError(err error) error {
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		for i := range unknown.Errors {
			e := &unknown.Errors[i]
			line, _ := e.Position()
			r.addUnknownKey(line, e.Key())
		}
	case errors.As(err, &wrong):
		line, _ := wrong.Position()
		if isParaStation(r.name, r.text) {
			r.addFault(0, ParaStationText)
			break
		}
		if name, is := schedulerClass(r.text, line); is {
			r.addFault(line, "CLASSCFG cannot be used in a cluster file; write [[class]] with name = %q", name)
			break
		}
		r.addFault(line, "%s", plainTypeError(strings.TrimPrefix(wrong.Error(), "toml: ")))
	default:
		r.addFault(0, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	return errors.Join(r.errs...)
}

// plainTypeError rewrites a type error of the TOML decoder. The decoder's text names Go types, and the result names
// TOML types instead.
func plainTypeError(text string) string {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(text, "cannot decode TOML "), " into struct field config.")
	field, typ, ok := strings.Cut(rest, " of type ")
	if !ok {
		return text
	}
	_, key, _ := strings.Cut(field, ".")
	if near := suggest(key, slices.Concat(globalKeys, nodeKeys)); strings.EqualFold(near, key) {
		key = near
	}
	if key == "queueHost" && kind == "array" {
		return "queueHost accepts only one host; for several hosts, write queueHosts = [\"A\", \"B\"]"
	}
	wanted := map[string]string{
		"string": "a string in quotes, such as \"A\"", "[]string": "a list of strings, [\"A\", \"B\"]", "*int": "a whole number", "int": "a whole number",
		"[]int": "a list of whole numbers", "[]config.nodeEntry": "a table, [[node]], and its keys below that line",
		"map[string]interface {}": "a table, [" + key + "], and its keys below that line",
	}[typ]
	if wanted == "" {
		return fmt.Sprintf("%s cannot be a TOML %s", key, kind)
	}
	return fmt.Sprintf("%s cannot be a TOML %s; write %s", key, kind, wanted)
}

// addUnknownKey adds an error for an unknown key. The error suggests a similar key, or says to which part of the file
// the key belongs.
func (r *reader) addUnknownKey(line int, path []string) {
	key := path[len(path)-1]
	known, others, place := globalKeys, nodeKeys, "this key is allowed only below a [[node]]"
	if len(path) > 1 {
		known, others, place = nodeKeys, globalKeys, "this key is allowed only above the first [[node]]"
	}
	if r.keys != nil {
		known, others = r.keys, nil
	}
	same := func(other string) bool { return strings.EqualFold(key, other) }
	text := fmt.Sprintf("unknown key %q", key)
	near := suggest(key, known)
	switch {
	case len(path) > 1 && !strings.EqualFold(path[0], "node"):
	case slices.ContainsFunc(others, same):
		text += " (" + place + ")"
	case near != "":
		text += fmt.Sprintf(" (did you mean %q?)", near)
	}
	r.addFault(line, "%s", text)
}

// readDefaults reads the settings of the whole cluster.
func (r *reader) readDefaults(f *clusterFile) {
	r.cluster.Sort, r.cluster.Ledger = strings.TrimSpace(f.PSINodesSort), f.Ledger
	r.readQueueHosts(f)
	required, ok := parseYesNo(f.QueueRequired, true)
	if r.cluster.QueueOptional = !required; !ok {
		r.addFault(r.lines.global["queuerequired"], "queueRequired: %s is not yes or no", valueText(f.QueueRequired))
	}
	r.cluster.Limits = r.readLimits("limits", f.Limits)
	r.readGang(f.Gang)
	r.readClasses(f.Class)
	if r.cluster.AccountingFile = f.Accounts; f.Accounts != "" && !strings.HasPrefix(f.Accounts, "/") {
		r.addFault(r.lines.global["accounting_file"], "accounting_file: %q is not an absolute path", f.Accounts)
	}
	r.cluster.Administrators = f.Administrators
	for _, name := range f.Administrators { // only for its warnings; each node looks names up itself
		r.readMembers(r.lines.global["administrators"], "administrators", []any{name}, r.ids.User)
	}
	r.cluster.QueueRequired = required && f.QueueRequired != nil
	if f.Ledger != "" && !strings.HasPrefix(f.Ledger, "/") {
		r.addFault(r.lines.global["ledger"], "ledger: %q is not an absolute path", f.Ledger)
	}
	if f.PSINodesSort != "" {
		if _, err := sort.Parse(r.cluster.Sort, false); err != nil {
			r.addFault(r.lines.global["psinodessort"], "PSINodesSort: %v; allowed: %s", err, strings.Join(sort.KeyWords(false), ", "))
		}
	}
	if len(f.Node) == 0 {
		r.addFault(0, "no node is defined; write [[node]] and name = \"NAME\"")
	}
}

// readLimits reads a table of limits. Each value is a string or a number.
func (r *reader) readLimits(table string, entries map[string]any) limits.Map {
	bounds := make(limits.Map)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		text, value := strings.ToLower(name), entries[name]
		switch value.(type) {
		case string, int64:
		default:
			r.addFault(r.lines.lineInTable(table, name), "%s: %s is neither a string nor a number", name, valueText(value))
			continue
		}
		most, err := limits.Value(limits.Resource(text), fmt.Sprint(value))
		if err != nil {
			r.addFault(r.lines.lineInTable(table, name), "%v", err)
			continue
		}
		bounds[limits.Resource(text)] = most
	}
	return bounds
}

// readQueueHosts reads the setting that lists the nodes on which the queue of waiting jobs may be.
func (r *reader) readQueueHosts(f *clusterFile) {
	key, names := "queueHosts", f.QueueHosts
	if f.QueueHost != "" {
		if len(names) > 0 {
			r.addFault(r.lines.global["queuehosts"], "queueHost and queueHosts mean the same; use only one of them")
		}
		key, names = "queueHost", []string{f.QueueHost}
	}
	for _, name := range names {
		if !r.byName[strings.ToLower(name)] {
			r.addFault(r.lines.global[strings.ToLower(key)], "%s: there is no node %q", key, name)
		}
	}
	r.cluster.QueueHosts = names
}
