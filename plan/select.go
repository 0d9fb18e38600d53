package plan

import (
	"fmt"
	"slices"
	"strings"

	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// A requirement lists the resources that one app of the job needs on a node.
type requirement struct {
	user            job.User
	features        []string
	probedFeatures  []string
	arch            string
	threads         int
	threadsSource   string // the flag or variable that set threads
	exclusive       bool
	localOnly       bool // the job runs only on this machine, where too few CPUs are no reason to refuse (PLACE-4)
	ignoreOtherJobs bool // CPUs of other jobs count as free
	layout          pin.Layout
	gpusPerRank     int // GPUs of each rank
	class           string
	numa            pin.Confinement
	memoryPerRank   int64 // bytes of each rank
	hugePages       bool  // memoryPerRank must be in huge pages
	reservedCPUs    int   // CPUs that the job leaves free on each node
	gang            bool
}

func requirementOf(req job.Request, app job.App) requirement {
	if len(req.FixedPlacements) > 0 && req.FixedPlacements[0].Picks != nil {
		app.CPUsPerRank = 1 // the rank file names the CPUs
	}
	localOnly := req.LocalOnly && !req.NoOversubscribe
	return requirement{req.User, app.Features, app.ProbedFeatures, app.Arch, max(1, app.CPUsPerRank), app.CPUsPerRankOrigin, isExclusive(req), localOnly, localOnly && !req.Wait, req.Layout, gpusPerRank(app), req.Class, app.NUMA, req.Memory, req.HugePages == job.HugePagesRequired, req.Reserve, req.Gang}
}

// A nodeCheck is one possible reason to reject a node. Its function returns the reason in words for the user, or "" if
// the node is acceptable.
type nodeCheck struct {
	code   string
	reason func(s *candidate, w *requirement) string
}

// staticChecks are the checks that need no connection to the node, in the order of placement.md 3 (1 to 5).
var staticChecks = []nodeCheck{
	{"out", func(s *candidate, w *requirement) string { return s.ExcludedWhy }},
	{"administrator", func(s *candidate, w *requirement) string { return s.ClosedWhy }},
	{"runjobs-off", func(s *candidate, w *requirement) string {
		return reasonUnless(!s.NoJobs, "the host does not allow jobs (runJobs = no)")
	}},
	{"user", func(s *candidate, w *requirement) string {
		mine := s.Users == nil || w.user.UID == 0 || slices.Contains(s.Users, w.user.UID)
		return reasonUnless(mine, "the host is reserved for other users")
	}},
	{"group", func(s *candidate, w *requirement) string {
		mine := s.Groups == nil || w.user.UID == 0 || slices.ContainsFunc(s.Groups, w.user.InGroup)
		return reasonUnless(mine, "the host is reserved for other groups")
	}},
	{"hardware", func(s *candidate, w *requirement) string {
		for _, feature := range w.features {
			if !slices.Contains(s.Features, feature) {
				return "the host does not have the feature " + feature
			}
		}
		return ""
	}},
	{"exclusive-denied", func(s *candidate, w *requirement) string {
		return reasonUnless(!w.exclusive || !s.NoExclusive, "the host does not allow exclusive use")
	}},
	flavorCheck,
	{"class", func(s *candidate, w *requirement) string {
		return reasonUnless(s.Classes == nil || slices.Contains(s.Classes, w.class), "the host is reserved for jobs of class "+strings.Join(s.Classes, ", "))
	}},
	regionCheck,
}

// probeChecks are the checks that need a probe of the node or the claims of running jobs. They are in the order of
// placement.md 3.
var probeChecks = []nodeCheck{
	{"unreachable", func(s *candidate, w *requirement) string { return s.Down }},
	{"architecture", func(s *candidate, w *requirement) string {
		same := w.arch == "" || s.Arch == "" || s.Arch == w.arch
		return reasonUnless(same, "the architecture of the host is "+s.Arch)
	}},
	{"hardware", func(s *candidate, w *requirement) string {
		for _, feature := range w.probedFeatures {
			if !s.HasProbedFeature(feature) {
				return "the host does not have the feature " + feature
			}
		}
		return ""
	}},
	gpuCheck,
	{"exclusive-by-other", func(s *candidate, w *requirement) string {
		return reasonUnless(!s.ExclusivelyHeld, "another job uses the host exclusively")
	}},
	{"not-idle", func(s *candidate, w *requirement) string {
		idle := s.Ranks == s.OwnRanks && (s.OwnRanks > 0 || len(s.busy) == 0)
		return reasonUnless(!w.exclusive || idle, fmt.Sprintf("other jobs use the host (%s, %s)", text.Count(s.Ranks, "process"), text.Count(len(s.busy), "CPU")))
	}},
	{"layout", func(s *candidate, w *requirement) string { return missingForLayout(s, w) }},
	{"maxproc", func(s *candidate, w *requirement) string {
		if s.MaxProcs == nil || s.Ranks < *s.MaxProcs {
			return ""
		}
		return fmt.Sprintf("the host already runs %d of at most %d processes", s.Ranks, *s.MaxProcs)
	}},
	{"cpus-full", func(s *candidate, w *requirement) string {
		if s.free >= 1 || w.ignoreOtherJobs {
			return ""
		}
		switch s.SlotCount() {
		case 0:
			return describeConfinement(s.Node, w.reservedCPUs)
		case 1:
			return "the only CPU is in use" + s.describeFullGangs()
		}
		return fmt.Sprintf("all %s are in use", text.Count(s.SlotCount(), "CPU")) + s.describeFullGangs()
	}},
	{"tpp-fit", func(s *candidate, w *requirement) string {
		if s.free >= w.threads || w.ignoreOtherJobs || w.localOnly && s.Slots == 0 && w.threads > s.SlotCount() {
			return ""
		}
		detail := fmt.Sprintf("the host has %d of %s free, but each rank needs %d", s.free, text.Count(s.SlotCount(), "CPU"), w.threads)
		if w.threadsSource != "" {
			detail += " by " + w.threadsSource
		}
		if why := describeConfinement(s.Node, w.reservedCPUs); why != "" {
			detail += "; " + why
		}
		return detail
	}},
	numaCheck,
	memoryCheck,
	gangMemoryCheck,
	freeGPUCheck,
}

// reasonUnless returns reason if ok is false, and "" otherwise.
func reasonUnless(ok bool, reason string) string {
	if ok {
		return ""
	}
	return reason
}

// dropReason returns the reason why an app of the job cannot use a candidate. code is empty if the app can
// use it.
func dropReason(s *candidate, w *requirement) (code, detail string) {
	for _, checks := range [][]nodeCheck{staticChecks, probeChecks} {
		for _, c := range checks {
			if detail := c.reason(s, w); detail != "" {
				return c.code, detail
			}
		}
	}
	return "", ""
}

// IsPermanentReason reports whether a rejection with this code is permanent: the job can never use the node, even if no
// other job runs there.
func IsPermanentReason(code string) bool {
	return code != "hardware" && slices.ContainsFunc(staticChecks, func(c nodeCheck) bool { return c.code == code })
}

// mayBeUsed reports whether an app of the job might use a candidate, as far as is known without a
// connection.
func mayBeUsed(req job.Request, s *candidate) bool {
	return slices.ContainsFunc(req.Apps, func(app job.App) bool {
		w := requirementOf(req, app)
		return !slices.ContainsFunc(staticChecks, func(c nodeCheck) bool { return c.reason(s, &w) != "" })
	})
}

// nameSet converts a list of names to a set, for fast look-up when 10,000 nodes are compared with as many
// names. It returns nil for a nil list.
func nameSet(names []string) map[string]bool {
	if names == nil {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// selectCandidates decides which app may use which candidate (placement.md 3). usable is indexed by app and
// candidate. rejected lists the candidates that no app may use, with the reason, without duplicates and in the
// order of the host list.
func selectCandidates(req job.Request, candidates []candidate, entries []int) (usable [][]bool, rejected []job.Note) {
	once := distinctCandidates(entries, len(candidates))
	notes := make([]job.Note, len(candidates))
	good := make([]bool, len(candidates))
	for _, app := range req.Apps {
		w := requirementOf(req, app)
		among := nameSet(app.Hosts)
		may := make([]bool, len(candidates))
		for _, i := range once {
			s := &candidates[i]
			if !s.isNamedIn(among) {
				continue
			}
			code, detail := dropReason(s, &w)
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
