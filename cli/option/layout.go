package option

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/gpu"
	"remshell/pin"
	"remshell/usererr"
)

// This file reduces all options for mapping and binding to --map-by, --rank-by and --bind-to. Modifiers of these
// three that have an option of their own (:oversubscribe, :nolocal) set that option.

// MergeLayout merges all mapping and binding options of the command line. Contradictions are returned as UsageErrors.
func (l *Line) MergeLayout() error {
	s := layoutMerger{line: l}
	s.mergeAliases()
	s.mergeMapping()
	s.mergeBinding()
	s.mergeWidth()
	s.checkGPUOptions()
	if len(s.errs) > 0 {
		return firstTen(s.errs)
	}
	return nil
}

// A layoutMerger merges the mapping and binding options of a command line and collects contradictions between
// them.
type layoutMerger struct {
	line *Line
	errs []error
}

// setOption gives an option a value because another option, requester, needs it. It reports a contradiction
// if the option already has a different value.
func (s *layoutMerger) setOption(field *string, value, option, requester string) {
	if *field != "" && *field != value {
		s.addConflict(requester, s.spellingOf(option))
		return
	}
	*field = value
}

func (s *layoutMerger) addConflict(a, b string) {
	s.errs = append(s.errs, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", a, b), Remedy: "use only one of them"})
}

// spellingOf returns a job option as the user has spelled it.
func (s *layoutMerger) spellingOf(option string) string {
	if g, given := s.line.Origin(option); given {
		return g.String()
	}
	return "--" + option
}

// mergeAliases translates the mapping and binding options of other launchers to --map-by, --rank-by and --bind-to.
func (s *layoutMerger) mergeAliases() {
	j := &s.line.Job
	if order := map[string]string{"up": "slots", "down": "-slots"}[j.OrderNodes]; order != "" {
		s.setOption(&j.Sort, order, "sort", s.spellingOf("order-nodes"))
	}
	if j.CPUBind == "" {
		return
	}
	word := map[string]string{"threads": "hwthread", "cores": "core", "sockets": "socket", "none": "none"}[j.CPUBind]
	if j.BindTo.Text != "" && j.BindTo.Text != word {
		s.addConflict(s.spellingOf("cpu-bind"), s.spellingOf("bind-to"))
		return
	}
	j.BindTo.UnmarshalText([]byte(word))
}

func (s *layoutMerger) mergeMapping() {
	j, m := &s.line.Job, s.line.Job.MapBy
	by := s.spellingOf("map-by")
	if m.IsCyclic() {
		s.setOption(&j.Loop, "yes", "loop-nodes-first", by)
	}
	if m.Oversubscribe {
		s.setOption(&j.Overbook, "share", "overbook", by)
	}
	if m.NoOversubscribe {
		s.setOption(&j.Overbook, "no", "overbook", by)
	}
	j.NoLocal = j.NoLocal || m.NoLocal
	if m.NoThread && j.Threads {
		s.addConflict(by, s.spellingOf("use-hwthread-cpus"))
	}
	j.Threads = j.Threads || m.Threads
	if m.File != "" && !m.Seq {
		s.setOption(&j.RankFile, m.File, "rankfile", by)
	}
	if m.Span && j.Loop == "yes" {
		s.addConflict(by, s.spellingOf("loop-nodes-first"))
	}
	s.checkRankPlaces()
}

// checkRankPlaces reports an error for each mapping option if the user has already placed each rank, for example by a
// rank file.
func (s *layoutMerger) checkRankPlaces() {
	j := &s.line.Job
	m := j.MapBy
	exact := ""
	switch {
	case j.RankFile != "":
		exact = "-rankfile " + ShellQuote(j.RankFile)
	case j.RankMap != "":
		exact = s.spellingOf("rankmap")
	case m.Seq:
		exact = s.spellingOf("map-by")
	default:
		return
	}
	if j.RankBy.Text != "" {
		s.addConflict(s.spellingOf("rank-by"), exact)
	}
	if !m.Seq && (m.PerObject > 0 || m.Span || m.Level == pin.ByNode || j.RankFile != "" && (m.Level > pin.BySlot || m.PEList != nil)) {
		s.addConflict(s.spellingOf("map-by"), exact)
	}
	if j.RankFile != "" && j.BindTo.Text != "" && !j.BindTo.None {
		s.addConflict(s.spellingOf("bind-to"), exact)
	}
}

func (s *layoutMerger) mergeBinding() {
	j, b := &s.line.Job, s.line.Job.BindTo
	if mem := j.Memory; mem.Mode == pin.NoMemory {
		s.setOption(&j.MemBind, "no", "mem-bind", s.spellingOf("membind"))
	} else if mem.Text != "" {
		s.setOption(&j.MemBind, "yes", "mem-bind", s.spellingOf("membind"))
	}
	by := s.spellingOf("bind-to")
	switch {
	case b.None:
		s.setOption(&j.Pin, "no", "pin", by)
	case b.Text != "" && j.Pin == "no":
		s.addConflict(by, s.spellingOf("pin"))
	}
	if b.Level == pin.ByThread && b.Width > 0 {
		j.Threads = true // the width counts hardware threads
	}
	if j.MapBy.NoThread && j.Threads {
		s.addConflict(by, s.spellingOf("map-by"))
	}
}

// mergeWidth sets the number of CPUs of each rank from the modifier pe=N, or from the number of cores to bind
// to.
func (s *layoutMerger) mergeWidth() {
	m, b := s.line.Job.MapBy, s.line.Job.BindTo
	width, by := m.Width, s.spellingOf("map-by")
	if b.Width > 0 {
		if width > 0 && width != b.Width {
			s.addConflict(s.spellingOf("bind-to"), by)
			return
		}
		width, by = b.Width, s.spellingOf("bind-to")
	}
	if width == 0 {
		return
	}
	s.line.WidthFrom = by
	for i := range s.line.Apps {
		app := &s.line.Apps[i]
		if g, given := app.Origin("tpp"); given && g.Value != strconv.Itoa(width) {
			s.addConflict(by, g.String())
			return
		}
		app.TPP = strconv.Itoa(width)
	}
}

// checkGPUOptions reports an error if the command line sets the GPUs of ranks by --gpus-per-proc and also by a
// variable in an option such as -genv. Variables in mpiexec's own environment cause no error.
func (s *layoutMerger) checkGPUOptions() {
	for _, app := range s.line.Apps {
		option, given := app.Origin("gpus-per-proc")
		if !given {
			continue
		}
		for _, source := range []struct {
			option string
			vars   []EnvVar
		}{{"-genv", s.line.Job.GEnv}, {"--export", s.line.Job.Export.Vars}, {"-env", app.Env}, {"-x", app.X}} {
			for _, v := range source.vars {
				if slices.Contains(gpu.Variables, v.Name) {
					s.addConflict(option.String(), source.option+" "+v.Name)
				}
			}
		}
	}
}
