package plan

import (
	"fmt"
	"slices"

	"remshell/gpu"
	"remshell/hostlist"
	"remshell/job"
	"remshell/pin"
	"remshell/text"
)

// This file assigns GPUs to ranks (-gpus-per-proc). A GPU belongs to one rank of one job. The number of
// GPUs limits the ranks of a node as its slots do, but GPUs are never shared, even with --overbook. There
// are two ways:
//
//	the plan chooses CPUs    each rank gets GPUs in order; then CPUs near those
//	CPUs are chosen already  by layout, rank file or map; then each rank gets GPUs near its CPUs

// freeGPUs returns the GPUs of a candidate that no job uses. If the node has GPUs of several vendors, only one vendor's
// GPUs are returned (see gpu.OfBestVendor).
func (s *candidate) freeGPUs() []gpu.GPU {
	return gpu.WithoutAddresses(gpu.OfBestVendor(s.GPUs), s.BusyGPUs)
}

// gpuCheck rejects a node that has fewer GPUs than one rank needs.
var gpuCheck = nodeCheck{"no-gpu", func(s *candidate, w *requirement) string {
	switch has := len(gpu.OfBestVendor(s.GPUs)); {
	case w.gpusPerRank <= has:
		return ""
	case has > 0:
		return fmt.Sprintf("the host has %s, but each rank needs %d", text.Count(has, "GPU"), w.gpusPerRank)
	case s.WithheldGPUs > 0:
		return fmt.Sprintf("ranks may use none of the %s of the host", text.Count(s.WithheldGPUs, "GPU"))
	}
	return "the host has no GPU"
}}

// freeGPUCheck rejects a node that has fewer free GPUs than one rank needs.
var freeGPUCheck = nodeCheck{"gpus-taken", func(s *candidate, w *requirement) string {
	if w.gpusPerRank <= len(s.gpus) {
		return ""
	}
	text := fmt.Sprintf("the host has %d of %s free", len(s.gpus), text.Count(len(gpu.OfBestVendor(s.GPUs)), "GPU"))
	if w.gpusPerRank > 1 {
		text += fmt.Sprintf(", but each rank needs %d", w.gpusPerRank)
	}
	return text
}}

// gpusPerRank returns the number of GPUs that each rank of an app needs.
func gpusPerRank(app job.App) int { return max(0, app.GPUs) }

// gpuOption returns the option that requests n GPUs for each rank, as messages show it.
func gpuOption(n int) string { return fmt.Sprint("-gpus-per-proc ", n) }

// gpuCapacity returns for how many ranks of an app the app's candidates have enough free GPUs.
func (s *placement) gpuCapacity(a *eligibleNodes) int {
	capacity := 0
	for _, i := range a.candidates {
		capacity += s.freeGPUs[i] / a.app.GPUs
	}
	return capacity
}

// refuseFewGPUs returns an error if there are too few free GPUs for n ranks, and nil otherwise. It does not
// consider other resources.
func (s *placement) refuseFewGPUs(a *eligibleNodes, n int) *Error {
	if gpusPerRank(a.app) == 0 || s.gpuCapacity(a) >= n {
		return nil
	}
	capacity, free, taken := s.gpuCapacity(a), 0, 0
	for _, i := range a.candidates {
		free += s.freeGPUs[i]
		taken += len(gpu.OfBestVendor(s.candidates[i].GPUs)) - len(s.candidates[i].gpus)
	}
	text := fmt.Sprintf("%s with %s: mpiexec found %s on %s (%s), which is enough for %s", s.describeExcess(a, n), gpuOption(a.app.GPUs),
		text.Count(free, "free GPU"), text.Count(len(a.candidates), "node"), hostlist.FoldBrief(a.names), text.Count(capacity, "rank"))
	remedy := "start fewer ranks, or add hosts"
	if taken > 0 {
		text += fmt.Sprintf("; other jobs use %d", taken)
	} else {
		remedy += "; without this option, all ranks share the GPUs"
	}
	return &Error{Code: CodeNoGPU, Text: text, Remedy: remedy, WantedRanks: n, FreeRanks: capacity}
}

// refuseNoGPUs returns an error if every node that the app may use lacks GPUs, and nil otherwise.
func (s *placement) refuseNoGPUs(app job.App) *Error {
	var names []string
	why := ""
	w, among := requirementOf(s.req, app), nameSet(app.Hosts)
	for _, i := range s.listedCandidates() {
		n := &s.candidates[i]
		if !n.isNamedIn(among) {
			continue
		}
		code, detail := dropReason(n, &w)
		if code != gpuCheck.code || why != "" && why != detail {
			return nil
		}
		why = detail
		names = append(names, n.Name)
	}
	if names == nil {
		return nil
	}
	remedy := "use hosts with GPUs"
	if why == "the host has no GPU" {
		why = "no GPU there"
		remedy += ", or leave out the option"
	}
	return &Error{Code: CodeNoGPU, Text: fmt.Sprintf("%s: %s: %s", hostlist.FoldBrief(names), gpuOption(app.GPUs), why), Remedy: remedy, textNamesRejected: true}
}

// listedCandidates returns the candidates of the host list without duplicates.
func (s *placement) listedCandidates() []int {
	if s.req.HostEntries == nil {
		return distinctCandidates(s.candidateOf, len(s.candidates))
	}
	var candidates []int
	for _, entry := range s.req.HostEntries {
		candidates = append(candidates, s.candidateOf[entry])
	}
	return distinctCandidates(candidates, len(s.candidates))
}

// bindNearGPUs assigns GPUs to the ranks of a node, and binds each rank to CPUs near its GPUs. Ranks without GPUs, and
// ranks for which too few such CPUs are left, get other free slots, those with the lowest numbers first.
func (s *placement) bindNearGPUs(n *candidate, ranks []job.RankPlan, slots []pin.Unit, widths []int) {
	left, gpus := pin.FreeSlots(slots, n.busy), slices.Clone(n.gpus)
	near := func(numa int) (mine []int) {
		for _, slot := range left {
			if numa >= 0 && slots[slot].NUMA == numa {
				mine = append(mine, slot)
			}
		}
		return mine
	}
	bind := func(i int, from []int) {
		mine := slices.Sorted(slices.Values(from[:widths[i]]))
		left = slices.DeleteFunc(left, func(slot int) bool { return slices.Contains(mine, slot) })
		s.bindRank(n, &ranks[i], pin.NewAssignment(slots, mine))
	}
	for i := range ranks {
		r, width := &ranks[i], widths[i]
		if want := gpusPerRank(s.req.Apps[r.App]); want > 0 {
			r.GPUs = gpu.ChooseForRank(gpus, want, func(numa int) bool { return len(near(numa)) >= width })
			gpus = gpu.WithoutAddresses(gpus, gpu.Addresses(r.GPUs))
			if beside := slotsNear(r.GPUs, near); len(beside) >= width {
				bind(i, beside)
			}
		}
	}
	for i := range ranks {
		r := &ranks[i]
		if r.ClaimedCPUs == nil {
			some := slotsNear(r.GPUs, near)
			rest := slices.DeleteFunc(slices.Clone(left), func(slot int) bool { return slices.Contains(some, slot) })
			bind(i, append(some, rest...))
		}
	}
}

// slotsNear returns the slots that are near any of the given GPUs. Slots near the first GPU come first. near returns
// the slots near a NUMA node.
func slotsNear(gpus []gpu.GPU, near func(numa int) []int) (slots []int) {
	var seen []int
	for _, g := range gpus {
		if !slices.Contains(seen, g.NUMA) {
			seen = append(seen, g.NUMA)
			slots = append(slots, near(g.NUMA)...)
		}
	}
	return slots
}

// assignGPUs assigns GPUs to the ranks of a node, which already have CPUs. It prefers GPUs near these CPUs.
func (s *placement) assignGPUs(n *candidate, ranks []job.RankPlan) {
	if s.gpuDemand(ranks) == 0 {
		return
	}
	var wants []gpu.Demand
	of := make(map[int]int) // NUMA node by CPU
	for _, c := range n.Topology.Cores {
		for _, cpu := range c.CPUs {
			of[cpu] = c.NUMA
		}
	}
	for _, r := range ranks {
		w := gpu.Demand{N: gpusPerRank(s.req.Apps[r.App])}
		for _, cpu := range r.ClaimedCPUs {
			if numa, known := of[cpu]; known && numa >= 0 && !slices.Contains(w.NUMA, numa) {
				w.NUMA = append(w.NUMA, numa)
			}
		}
		wants = append(wants, w)
	}
	for i, gpus := range gpu.AssignNear(n.gpus, wants) {
		ranks[i].GPUs = gpus
	}
}

// gpuDemand returns how many GPUs the ranks of a node need.
func (s *placement) gpuDemand(ranks []job.RankPlan) int {
	total := 0
	for _, r := range ranks {
		total += gpusPerRank(s.req.Apps[r.App])
	}
	return total
}
