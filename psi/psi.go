/*
Package psi reads the placement settings of ParaStation: the PSI_* variables and the options with the same meaning.
It checks these settings against the cluster file.

	flags  >  environment  >  cluster file  >  built-in
	                 |
	               Read --> Settings: nodes and host entries, sort key, switches, CPUs per rank, CPU map
	                        with warnings,
	                        or the first error, in the order of placement.md 1.5

The package does no input or output itself: Input contains functions that read the environment and files. If a source
with higher precedence overrides a value, the value is not parsed. Package hostlist parses -host and -hostfile. If one
of these is given, psi ignores variables that list nodes.
*/
package psi

import (
	"strings"

	"remshell/job"
	"remshell/plan/nodeset"
	"remshell/sort"
)

// An Input contains all settings that can affect the placement, and functions to read the environment and files.
type Input struct {
	NP           string        // number of processes, the value of -n; empty: not given
	Nodes        []job.NodeDef // nodes of the cluster file, in ascending order of ID
	NoConfig     bool          // there is no cluster file: the names of a list are the cluster
	Sort         string        // PSINodesSort of the cluster file; empty: not given
	HostsNamed   bool          // -host or -hostfile name the nodes
	HostFeatures []string      // features given in the host file
	Env          func(name string) (value string, defined bool)
	Flags        Flags
	Rules        job.SelectionRules // rules of the cluster file that select nodes
	User         job.User           // user of the job
	RanksPlaced  bool               // a rank file or rank map gives the node of each rank
	Open         func(name string) (text string, err error)
}

// Flags are the placement options of the command line. A nil field means that the option was not given.
type Flags struct {
	Nodes, Sort, Features, CPUMap, TPP, PPN                    *string
	HostsUnique, Exclusive, Overbook, Loop, Wait, Pin, MemBind *bool
	Oversubscribe                                              bool // --oversubscribe; it overrides PSI_OVERBOOK

	SelectionFlags
}

// SelectionFlags are the command-line options that select the nodes of a job. A nil field means that the option was
// not given.
type SelectionFlags struct {
	Sets                                           nodeset.Level // --node-set, --node-set-*
	Class, NodeAlloc, ReserveCPUs, MemPerRank      *string
	Contiguous                                     *string // first or best
	Shape, PerNUMA, NUMANodes, NUMAList, HWThreads *string // of an app context
	StrictMem                                      *bool   // of an app context
}

// Settings are the effective placement settings, with all defaults filled in.
type Settings struct {
	Nodes   []job.NodeDef // the cluster, or the hosts of the list if there is no cluster file
	Entries []int         // indices into Nodes, in list order with repetitions; nil if HostsNamed
	Source  string        // the source of the list; empty: all nodes
	job.Placement
	job.RankNeeds
	Warnings []job.Note
}

// Read reads all placement settings. Any error is an *Error. If there is an error, the settings contain only the
// warnings that were found before it.
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

// ReadApp reads the settings of an app context other than the first on the command line (placement.md 5.7).
func ReadApp(in Input) (job.RankNeeds, error) {
	var c Settings
	for _, step := range []func(*Settings, Input) error{(*Settings).readRankNeeds, (*Settings).readShape, (*Settings).readNUMA, (*Settings).readHWThreads} {
		if err := step(&c, in); err != nil {
			return c.RankNeeds, err
		}
	}
	return c.RankNeeds, nil
}

func (c *Settings) readProcessCount(in Input) error {
	if in.NP == "" {
		return nil
	}
	if _, ok := parseNumber(in.NP, 1, maxRanks); !ok {
		return &Error{Code: "bad-np", Source: "-n", Token: in.NP, Problem: "is not a valid number of processes", Allowed: []string{"1-1048576"}}
	}
	return nil
}

// maxRanks is the maximum value of -n (placement.md 1.5).
const maxRanks = 1 << 20

// readSortKey determines the sort key (placement.md 4.1). An invalid key in the cluster file is an error even if
// another source determines the key.
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
		return "", &Error{Code: "bad-sort", Source: source, Token: value, Problem: "is not a sort criterion", Allowed: sort.KeyWords(flag)}
	}
	return mode, nil
}

// blanks are the characters that are removed from both ends of a value (placement.md 1.1).
const blanks = " \t\n\r\f\v"

func trimBlanks(value string) string { return strings.Trim(value, blanks) }
