package aprun

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A letterRow is a letter of aprun.
type letterRow struct {
	letters, arg string // arg is empty for a switch
	long         string // what it comes to, for help
	help         string
	translate    func(s *segment, value string) error
}

// rows are all of them, in the order of help.
var rows = []letterRow{
	{"n", "N", "-n N", "number of ranks (width); 1 by default", func(s *segment, v string) error { s.counted = true; return s.own(v, "-n") }},
	{"d", "D", "--depth D", "CPUs of each rank", func(s *segment, v string) (err error) {
		if s.depth, err = strconv.Atoi(v); err != nil || s.depth < 1 {
			return fmt.Errorf("%q is not a number of CPUs", v)
		}
		return s.own(v, "--depth")
	}},
	{"N", "K", "--shape K", "exactly K ranks on each host that is used", long("--shape")},
	{"S", "K", "--per-numa K", "at most K ranks in each NUMA node", long("--per-numa")},
	{"sn", "K", "--numa-nodes K", "only the K lowest NUMA nodes", long("--numa-nodes")},
	{"sl", "LIST", "--numa-list LIST", "only these NUMA nodes", long("--numa-list")},
	{"ss", "", "--strict-mem", "memory of the own NUMA node only", func(s *segment, _ string) error { s.strict = true; return s.own("", "--strict-mem") }},
	{"cc", "SPEC", "--bind-to", "binding: cpu, depth, numa_node, none, or CPUs: 0,4 or 0-1:x", func(s *segment, v string) error { s.binding = v; return nil }},
	{"cp", "FILE", "--bind-to", "-cc with the text of FILE", func(s *segment, v string) error {
		text, err := s.Read(v)
		s.binding = withoutComments(text)
		return err
	}},
	{"L", "LIST", "--nodes, -host", "hosts: 3,7-12,node40 or names, in the order of their numbers", (*segment).hosts},
	{"l", "FILE", "--nodes, -host", "the same from a file, one on each line", func(s *segment, v string) error {
		text, err := s.Read(v)
		if err != nil {
			return err
		}
		return s.hosts(strings.Join(strings.Fields(text), ","))
	}},
	{"j", "K", "--hw-threads K", "hardware threads of each core; 1 by default", long("--hw-threads")},
	{"r", "C", "--reserve-cpus C", "the last C CPUs of each host stay free", whole("--reserve-cpus")},
	{"m", "SIZE[h|hs]", "--mem-per-rank SIZE", "memory of each rank; h wishes for huge pages, hs needs them", whole("--mem-per-rank")},
	{"a", "ARCH", "-arch ARCH", "hosts of this architecture", func(s *segment, v string) error { return s.own(v, "-arch") }},
	{"F", "WORD", "--exclusive", "exclusive or share", func(s *segment, v string) error {
		word := map[string]string{"exclusive": "--exclusive", "share": "--no-exclusive"}[v]
		if word == "" {
			return fmt.Errorf("%q is not one of exclusive, share", v)
		}
		s.job = append(s.job, word)
		return nil
	}},
	{"t", "SEC", "--limit pcput=SEC", "CPU time of each process, in seconds", func(s *segment, v string) error {
		if _, err := strconv.ParseUint(v, 10, 31); err != nil {
			return fmt.Errorf("%q is not a number of seconds", v)
		}
		s.job = append(s.job, "--limit", "pcput="+v)
		return nil
	}},
	{"T", "", "", "whole lines, as always here", ignore("")},
	{"q", "", "--quiet", "say less", func(s *segment, _ string) error { s.job = append(s.job, "--quiet"); return nil }},
	{"e", "NAME=VALUE", "-genv NAME=VALUE", "set a variable; again for more", func(s *segment, v string) error {
		if !strings.Contains(v, "=") {
			return fmt.Errorf("%q is not NAME=VALUE", v)
		}
		s.job = append(s.job, "-genv", v)
		return nil
	}},
	{"B", "", "", "ranks and hosts as the batch system gave them", (*segment).ofBatch},
	{"b", "", "", "nothing: programs are not copied without --stage", ignore("")},
	{"D", "LEVEL", "-v, -vv", "say more", func(s *segment, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a number", v)
		}
		if n > 0 {
			s.job = append(s.job, []string{"-v", "-vv"}[min(n-1, 1)])
		}
		return nil
	}},
	{"C", "", "", "no counterpart", ignore("-C")},
	{"R", "K", "", "no counterpart", ignore("-R")},
	{"p", "X", "", "no counterpart", ignore("-p")},
	{"P", "X", "", "no counterpart", ignore("-P")},
}

// long is an option of segments that another one of mpiexec means.
func long(name string) func(*segment, string) error {
	return func(s *segment, value string) error { return s.own(value, name) }
}

// whole is one of the job.
func whole(name string) func(*segment, string) error {
	return func(s *segment, value string) error {
		s.job = addOnce(s.job, name, value)
		return nil
	}
}

// ignore takes a letter that means nothing here, with a warning if it is to have one.
func ignore(name string) func(*segment, string) error {
	return func(s *segment, _ string) error {
		if name != "" {
			s.warnings = append(s.warnings, name+" has no counterpart here, and is ignored")
		}
		return nil
	}
}

// own adds an option to the segment.
func (s *segment) own(value string, name string) error {
	if s.args = append(s.args, name); value != "" {
		s.args = append(s.args, value)
	}
	return nil
}

// hosts reads numbers of nodes, or names of hosts.
func (s *segment) hosts(list string) error {
	items := strings.FieldsFunc(list, func(c rune) bool { return c == ',' })
	if len(items) == 0 {
		return errors.New("no host is named")
	}
	named := 0
	for _, item := range items {
		if strings.Trim(item, "0123456789-") != "" {
			named++
		}
	}
	switch {
	case named == 0:
		s.job = addOnce(s.job, "--nodes", ascending(items))
	case named == len(items):
		return s.own(strings.Join(once(items), ","), "-host")
	default: // names of the cluster file
		s.job = addOnce(s.job, "--nodes", strings.Join(once(items), ","))
	}
	return nil
}

// ascending are ranges of numbers in their order, each node once; as they stand, where one of them is none: it is told of
// where it is read.
func ascending(items []string) string {
	const most = 1 << 16
	there := make(map[int]bool)
	for _, item := range items {
		first, last, between := strings.Cut(item, "-")
		if !between {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, also := strconv.Atoi(last)
		if err != nil || also != nil || to < from || to-from > most || len(there) > most {
			return strings.Join(items, ",")
		}
		for id := from; id <= to; id++ {
			there[id] = true
		}
	}
	return folded(there)
}

// ofBatch leaves to the allocation how many ranks there are, and on which hosts.
func (s *segment) ofBatch(string) error {
	if !s.Granted {
		return errors.New("no batch system has given us hosts; write -n")
	}
	s.batch = true
	return nil
}
