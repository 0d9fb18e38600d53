package aprun

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A letterRow describes one option of aprun, such as -n, and how to translate it.
type letterRow struct {
	letters, arg string // arg is empty for a switch
	long         string // the option of mpiexec, for help
	help         string
	translate    func(s *segment, value string) error
}

// letterRows are the options of aprun, in the order of help.
var letterRows = []letterRow{
	{"n", "N", "-n N", "start this number of ranks (default: 1)", func(s *segment, value string) error { s.countGiven = true; return s.addOption(value, "-n") }},
	{"d", "D", "--depth D", "give each rank this number of CPUs", func(s *segment, value string) (err error) {
		if s.depth, err = strconv.Atoi(value); err != nil || s.depth < 1 {
			return fmt.Errorf("%q is not a number of CPUs", value)
		}
		return s.addOption(value, "--depth")
	}},
	{"N", "K", "--shape K", "start exactly K ranks on each host that is used", segmentOption("--shape")},
	{"S", "K", "--per-numa K", "start at most K ranks in each NUMA node", segmentOption("--per-numa")},
	{"sn", "K", "--numa-nodes K", "use only the first K NUMA nodes of each host", segmentOption("--numa-nodes")},
	{"sl", "LIST", "--numa-list LIST", "use only these NUMA nodes of each host", segmentOption("--numa-list")},
	{"ss", "", "--strict-mem", "give a rank memory only from its own NUMA node", func(s *segment, _ string) error { s.strictGiven = true; return s.addOption("", "--strict-mem") }},
	{"cc", "SPEC", "--bind-to", "bind ranks: cpu, depth, numa_node, none, or CPUs (0-1:4-5)", func(s *segment, value string) error { s.binding = value; return nil }},
	{"cp", "FILE", "--bind-to", "read the value of -cc from FILE", func(s *segment, value string) error {
		text, err := s.Read(value)
		s.binding = withoutComments(text)
		return err
	}},
	{"L", "LIST", "--nodes, -host", "use these hosts, in the order of their numbers: 3,7-12,node40", (*segment).readHosts},
	{"l", "FILE", "--nodes, -host", "read hosts from FILE, one on each line", func(s *segment, value string) error {
		text, err := s.Read(value)
		if err != nil {
			return err
		}
		return s.readHosts(strings.Join(strings.Fields(text), ","))
	}},
	{"j", "K", "--hw-threads K", "use this number of hardware threads of each core (default: 1)", segmentOption("--hw-threads")},
	{"r", "C", "--reserve-cpus C", "keep the last C CPUs of each host free of ranks", jobOption("--reserve-cpus")},
	{"m", "SIZE[h|hs]", "--mem-per-rank SIZE", "memory that each rank needs; h prefers huge pages, hs requires them", jobOption("--mem-per-rank")},
	{"a", "ARCH", "-arch ARCH", "use only hosts of this architecture", func(s *segment, value string) error { return s.addOption(value, "-arch") }},
	{"F", "WORD", "--exclusive", "exclusive: share no host with other jobs; share is the default", func(s *segment, value string) error {
		word := map[string]string{"exclusive": "--exclusive", "share": "--no-exclusive"}[value]
		if word == "" {
			return fmt.Errorf("%q is neither \"exclusive\" nor \"share\"", value)
		}
		s.job = append(s.job, word)
		return nil
	}},
	{"t", "SEC", "--limit pcput=SEC", "limit the CPU time of each process to this number of seconds", func(s *segment, value string) error {
		n, err := strconv.ParseUint(value, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a number of seconds", value)
		}
		if n == 0 {
			return errors.New("0 is too small; the smallest value is 1")
		}
		if !s.HasOption("--limit") {
			return errors.New("this mpiexec was built without --limit, so it cannot limit CPU time")
		}
		s.job = append(s.job, "--limit", "pcput="+value)
		return nil
	}},
	{"T", "", "", "no effect, because mpiexec always prints whole lines", ignoredLetter("")},
	{"q", "", "--quiet", "print only errors", func(s *segment, _ string) error { s.job = append(s.job, "--quiet"); return nil }},
	{"e", "NAME=VALUE", "-genv NAME=VALUE", "set an environment variable; may be repeated", func(s *segment, value string) error {
		if !strings.Contains(value, "=") {
			return fmt.Errorf("%q is not NAME=VALUE", value)
		}
		s.job = append(s.job, "-genv", value)
		return nil
	}},
	{"B", "", "", "use the number of ranks and the hosts of the batch job", (*segment).useBatchSize},
	{"b", "", "", "no effect, because mpiexec copies programs only with --stage", ignoredLetter("")},
	{"D", "LEVEL", "-v, -vv", "print more messages", func(s *segment, value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number", value)
		}
		if n > 0 {
			s.job = append(s.job, []string{"-v", "-vv"}[min(n-1, 1)])
		}
		return nil
	}},
	{"C", "", "", "no counterpart", ignoredLetter("-C")},
	{"R", "K", "", "no counterpart", ignoredLetter("-R")},
	{"p", "X", "", "no counterpart", ignoredLetter("-p")},
	{"P", "X", "", "no counterpart", ignoredLetter("-P")},
}

// segmentOption returns a function that translates an option of aprun to the mpiexec option with the given
// name, for one segment only.
func segmentOption(name string) func(*segment, string) error {
	return func(s *segment, value string) error { return s.addOption(value, name) }
}

// jobOption returns a function that translates an option of aprun to the mpiexec option with the given name,
// for the whole job.
func jobOption(name string) func(*segment, string) error {
	return func(s *segment, value string) error {
		s.job = addOnce(s.job, name, value)
		return nil
	}
}

// ignoredLetter returns a function for an option that has no effect. If name is not empty, the function adds
// a warning that names the option.
func ignoredLetter(name string) func(*segment, string) error {
	return func(s *segment, _ string) error {
		if name != "" {
			s.warnings = append(s.warnings, name+" is ignored: mpiexec has no such option")
		}
		return nil
	}
}

// addOption adds an option of mpiexec to the segment, with its value unless the value is empty.
func (s *segment) addOption(value string, name string) error {
	if s.args = append(s.args, name); value != "" {
		s.args = append(s.args, value)
	}
	return nil
}

// readHosts translates a list of node numbers or host names to --nodes or -host.
func (s *segment) readHosts(list string) error {
	items := strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
	if len(items) == 0 {
		return errors.New("the list of hosts is empty")
	}
	named := 0
	for _, item := range items {
		if strings.Trim(item, "0123456789-") != "" {
			named++
		}
	}
	switch {
	case named == 0:
		s.job = addOnce(s.job, "--nodes", sortRanges(items))
	case named == len(items):
		return s.addOption(strings.Join(withoutRepeats(items), ","), "-host")
	default: // names of the cluster file
		s.job = addOnce(s.job, "--nodes", strings.Join(withoutRepeats(items), ","))
	}
	return nil
}

// sortRanges sorts ranges of node numbers and removes duplicates. If an item is neither a number nor a range, it
// returns the items unchanged, so that mpiexec reports the error.
func sortRanges(items []string) string {
	const most = 1 << 16
	set := make(map[int]bool)
	for _, item := range items {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, also := strconv.Atoi(last)
		if err != nil || also != nil || to < from || to-from > most || len(set) > most {
			return strings.Join(items, ",")
		}
		for id := from; id <= to; id++ {
			set[id] = true
		}
	}
	return foldNumbers(set)
}

// useBatchSize takes the number of ranks and the hosts from the batch system's allocation (aprun's option
// -B).
func (s *segment) useBatchSize(string) error {
	if !s.InAllocation {
		return errors.New("no batch system has allocated hosts; use -n instead of -B")
	}
	s.batchSized = true
	return nil
}
