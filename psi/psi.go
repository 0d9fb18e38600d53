/*
Package psi reads what users of ParaStation say about placement: the PSI_* variables
and the flags of the same meaning, each against the cluster configuration.

	flags  >  environment  >  configuration  >  built-in
	                 |
	               Read --> Choice: nodes and turns, sort key, switches, TPP, map
	                        warnings
	                        or the first error, in the order of placement.md 1.5

It is pure: the environment is a function, files are opened by a function. A value
that a higher source hides is not read at all. What -host and -hostfile name is not
its business (package hostlist); with them, the list variables do not count.
*/
package psi

import (
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// An Input is all that can be said about a placement.
type Input struct {
	NP           string        // number of processes, of -n; empty: not given
	Nodes        []job.NodeDef // the configured cluster, ascending by ID
	NoConfig     bool          // there is no configuration: the names of a list make the cluster
	Sort         string        // PSINodesSort of the configuration
	HostsNamed   bool          // -host or -hostfile name the nodes
	HostFeatures []string      // features of these, as they name them
	Env          func(name string) (value string, defined bool)
	Flags        Flags
	Rules        job.SelectionRules // of the cluster, about which nodes a job gets
	User         job.User           // who asks
	RanksPlaced  bool               // each rank has its place by a rank file, or map
	Open         func(name string) (text string, err error)
}

// Flags are options of the command line; nil means not given.
type Flags struct {
	Nodes, Sort, Features, CPUMap, TPP, PPN                    *string
	HostsUnique, Exclusive, Overbook, Loop, Wait, Pin, MemBind *bool
	Oversubscribe                                              bool // --oversubscribe; it wins over PSI_OVERBOOK

	SelectionFlags
}

// SelectionFlags are the flags about which nodes a job gets.
type SelectionFlags struct {
	Sets                                           nodeset.Level // --node-set, --node-set-*
	Class, NodeAlloc, ReserveCPUs, MemPerRank      *string
	Contiguous                                     *string // first, best
	Shape, PerNUMA, NUMANodes, NUMAList, HWThreads *string // of a section
	StrictMem                                      *bool   // of a section
}

// A Settings is what was said, with all defaults filled in.
type Settings struct {
	Nodes   []job.NodeDef // the cluster, or what the list made
	Entries []int         // indices into Nodes, in list order with repeats; nil if Listed
	Source  string        // the source of the list; empty: all nodes
	job.Placement
	job.RankNeeds
	Warnings []job.Note
}

// Read judges everything. With an error, which is an *Error, the choice holds only
// the warnings until then.
func Read(in Input) (Settings, error) {
	var c Settings
	c.readToggles(in)
	for _, step := range []func(*Settings, Input) error{
		(*Settings).readProcessCount, (*Settings).readNodeList, (*Settings).readSortKey, (*Settings).readRankNeeds, (*Settings).readCPUMap,
		(*Settings).readClass, (*Settings).readNodeSets, (*Settings).readShape, (*Settings).readNUMA, (*Settings).readHWThreads, (*Settings).readReserve, (*Settings).readMemory,
		(*Settings).readContiguous, (*Settings).readNodeAlloc, (*Settings).readAffinity, (*Settings).readRegions,
	} {
		if err := step(&c, in); err != nil {
			return Settings{Warnings: c.Warnings}, err
		}
	}
	return c, nil
}

// ReadApp reads what one more section of a command line may say for itself (5.7).
func ReadApp(in Input) (job.RankNeeds, error) {
	var c Settings
	for _, step := range []func(*Settings, Input) error{(*Settings).readRankNeeds, (*Settings).readShape, (*Settings).readNUMA, (*Settings).readHWThreads} {
		if err := step(&c, in); err != nil {
			return c.RankNeeds, err
		}
	}
	return c.RankNeeds, nil
}

// readProcessCount checks the number of processes.
func (c *Settings) readProcessCount(in Input) error {
	if in.NP == "" {
		return nil
	}
	if _, ok := parseNumber(in.NP, 1, maxRanks); !ok {
		return &Error{Code: "bad-np", Source: "-n", Token: in.NP, Problem: "bad number of processes", Allowed: []string{"1-1048576"}}
	}
	return nil
}

// maxRanks bounds the number of processes (1.5).
const maxRanks = 1 << 20

// readSortKey finds the sort key (4.1). The configured one is checked also when another
// is used: it is a mistake of the configuration all the same.
func (c *Settings) readSortKey(in Input) error {
	mode := sort.Proc
	if in.Sort != "" {
		var err error
		if mode, err = sortKey("PSINodesSort", in.Sort, false); err != nil {
			return err
		}
	}
	value, defined := in.Env("PSI_NODES_SORT")
	var err error
	switch {
	case in.Flags.Sort != nil:
		mode, err = sortKey("--sort", *in.Flags.Sort, true)
	case in.HostsNamed:
		mode = sort.None
	case defined:
		mode, err = sortKey("PSI_NODES_SORT", value, false)
	}
	c.Sort = string(mode)
	return err
}

func sortKey(source, value string, flag bool) (sort.Mode, error) {
	value = trimBlanks(value)
	mode, err := sort.Parse(value, flag)
	if err != nil {
		return "", &Error{Code: "bad-sort", Source: source, Token: value, Problem: "unknown sort criterion", Allowed: sort.KeyWords(flag)}
	}
	return mode, nil
}

// blanks are what may stand around a value (1.1).
const blanks = " \t\n\r\f\v"

func trimBlanks(value string) string { return strings.Trim(value, blanks) }
