package plan

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// A requirement is what one part of the job asks of every node.
type requirement struct {
	user      job.User
	types     []string
	arch      string
	threads   int
	from      string // the flag or variable that said so
	exclusive bool
	home      bool // on this machine no CPU is missed (PLACE-4)
	others    bool // nor is one that other jobs have
	layout    pin.Layout
	gpus      int // for each rank
	class     string
	numa      pin.Confinement
	memory    int64 // bytes for each rank
	huge      bool  // in huge pages
	reserve   int   // CPUs that the job leaves free on each node
}

func wishOf(req job.Request, app job.App) requirement {
	if len(req.RankFile) > 0 && req.RankFile[0].Picks != nil {
		app.Threads = 1 // the CPUs that were written down count
	}
	home := req.Home && !req.Forbid
	return requirement{req.User, app.Types, app.Arch, max(1, app.Threads), app.ThreadsFrom, exclusive(req), home, home && !req.Wait, req.Layout, wantedGPUs(app), req.Class, app.NUMA, req.Memory, req.Huge == job.HugeNeeded, req.Reserve}
}

// A check returns why a node is dropped, in words, or nothing.
type check struct {
	code string
	why  func(s *candidate, w *requirement) string
}

// asked are the checks that need no connection (section 3, 1 to 5), in order.
var asked = []check{
	{"out", func(s *candidate, w *requirement) string { return s.Out }},
	{"administrator", func(s *candidate, w *requirement) string { return s.Closed }},
	{"runjobs-off", func(s *candidate, w *requirement) string {
		return unless(!s.NoJobs, "runJobs is no")
	}},
	{"user", func(s *candidate, w *requirement) string {
		mine := s.Users == nil || w.user.UID == 0 || slices.Contains(s.Users, w.user.UID)
		return unless(mine, "reserved for other users")
	}},
	{"group", func(s *candidate, w *requirement) string {
		mine := s.Groups == nil || w.user.UID == 0 || slices.ContainsFunc(s.Groups, w.user.In)
		return unless(mine, "reserved for other groups")
	}},
	{"hardware", func(s *candidate, w *requirement) string {
		for _, t := range w.types {
			if !slices.Contains(s.Features, t) {
				return "it has no " + t
			}
		}
		return ""
	}},
	{"exclusive-denied", func(s *candidate, w *requirement) string {
		return unless(!w.exclusive || !s.NoExclusive, "it may not be used exclusively")
	}},
	flavorFit,
	{"class", func(s *candidate, w *requirement) string {
		return unless(s.Classes == nil || slices.Contains(s.Classes, w.class), "reserved for jobs of class "+strings.Join(s.Classes, ", "))
	}},
	regionFit,
}

// probed are those that need a probe (6) and the registry of live jobs (7 to 11).
var probed = []check{
	{"unreachable", func(s *candidate, w *requirement) string { return s.Down }},
	{"architecture", func(s *candidate, w *requirement) string {
		same := w.arch == "" || s.Arch == "" || s.Arch == w.arch
		return unless(same, "its architecture is "+s.Arch)
	}},
	wantsGPUs,
	{"exclusive-by-other", func(s *candidate, w *requirement) string {
		return unless(!s.Taken, "used exclusively by another job")
	}},
	{"not-idle", func(s *candidate, w *requirement) string {
		idle := s.Procs == s.Own && (s.Own > 0 || len(s.busy) == 0)
		return unless(!w.exclusive || idle, fmt.Sprintf("%s running, %s busy", text.Count(s.Procs, "process"), text.Count(len(s.busy), "CPU")))
	}},
	{"layout", func(s *candidate, w *requirement) string { return lacks(s, w) }},
	{"maxproc", func(s *candidate, w *requirement) string {
		if s.MaxProcs == nil || s.Procs < *s.MaxProcs {
			return ""
		}
		return fmt.Sprintf("%d of at most %d processes running", s.Procs, *s.MaxProcs)
	}},
	{"cpus-full", func(s *candidate, w *requirement) string {
		if s.free >= 1 || w.others {
			return ""
		}
		switch s.Size() {
		case 0:
			return confined(s.Node, w.reserve)
		case 1:
			return "its CPU is in use"
		}
		return fmt.Sprintf("all %s are in use", text.Count(s.Size(), "CPU"))
	}},
	{"tpp-fit", func(s *candidate, w *requirement) string {
		if s.free >= w.threads || w.others || w.home && s.Slots == 0 && w.threads > s.Size() {
			return ""
		}
		detail := fmt.Sprintf("%d of %s free, a process needs %d", s.free, text.Count(s.Size(), "CPU"), w.threads)
		if w.from != "" {
			detail += " by " + w.from
		}
		if why := confined(s.Node, w.reserve); why != "" {
			detail += "; " + why
		}
		return detail
	}},
	numaFit,
	memoryFit,
	findsGPUs,
}

// unless returns a reason that holds when all is not well.
func unless(well bool, reason string) string {
	if well {
		return ""
	}
	return reason
}

// dropped returns why a part of the job cannot use a candidate; code is empty if it can.
func dropped(s *candidate, w *requirement) (code, detail string) {
	for _, checks := range [][]check{asked, probed} {
		for _, c := range checks {
			if detail := c.why(s, w); detail != "" {
				return c.code, detail
			}
		}
	}
	return "", ""
}

// Forbids reports whether the code of a note on a rejected node says that the job may never use it, whoever else runs there and
// whatever program it starts.
func Forbids(code string) bool {
	return code != "hardware" && slices.ContainsFunc(asked, func(c check) bool { return c.code == code })
}

// allowed reports whether nothing that is known without a connection excludes a candidate from
// every part of the job.
func allowed(req job.Request, s *candidate) bool {
	return slices.ContainsFunc(req.Apps, func(app job.App) bool {
		w := wishOf(req, app)
		return !slices.ContainsFunc(asked, func(c check) bool { return c.why(s, &w) != "" })
	})
}

// setOf makes a list of names quick to ask: 10,000 nodes may be judged by a list of as
// many. The set of no list is nil.
func setOf(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// judge tells which candidates each part of the job may use (section 3), and which candidates
// none may, once each, in list order, with the reason.
func judge(req job.Request, candidates []candidate, turns []int) (usable [][]bool, rejected []job.Note) {
	once := distinct(turns, len(candidates))
	notes := make([]job.Note, len(candidates))
	good := make([]bool, len(candidates))
	for _, app := range req.Apps {
		w := wishOf(req, app)
		among := setOf(app.Hosts)
		may := make([]bool, len(candidates))
		for _, i := range once {
			s := &candidates[i]
			if !s.isOne(among) {
				continue
			}
			code, detail := dropped(s, &w)
			may[i] = code == ""
			good[i] = good[i] || may[i]
			if notes[i].Code == "" {
				notes[i] = job.Note{Code: code, Node: s.Name, ID: s.ID, Text: detail}
			}
		}
		usable = append(usable, may)
	}
	for _, i := range once {
		if !good[i] && notes[i].Code != "" {
			rejected = append(rejected, notes[i])
		}
	}
	return usable, rejected
}
