package option

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/gpu"
	"remshell/pin"
	"remshell/usererr"
)

// This file joins the many ways to ask for a mapping or binding: what --map-by, --rank-by
// and --bind-to say of other options' matters becomes these options, and the options of
// other launchers become those three.

// MergeLayout makes these three of all that a line says of a layout. An error is of type
// UsageErrors.
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

// A layoutMerger gathers contradictions on its way.
type layoutMerger struct {
	line *Line
	errs []error
}

// setOption sets an option that is not given; another value is a contradiction.
func (s *layoutMerger) setOption(field *string, value, option, by string) {
	if *field != "" && *field != value {
		s.addConflict(by, s.spellingOf(option))
		return
	}
	*field = value
}

func (s *layoutMerger) addConflict(a, b string) {
	s.errs = append(s.errs, &usererr.Error{Text: fmt.Sprintf("%s contradicts %s", a, b), Remedy: "keep one"})
}

// spellingOf is a job option as it was given.
func (s *layoutMerger) spellingOf(option string) string {
	if g, given := s.line.Origin(option); given {
		return g.String()
	}
	return "--" + option
}

// mergeAliases are words of other launchers.
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
	if m.Level == pin.ByNode && m.PerObject == 0 {
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

// checkRankPlaces refuses policies beside the exact place of each rank.
func (s *layoutMerger) checkRankPlaces() {
	j := &s.line.Job
	m := j.MapBy
	told := ""
	switch {
	case j.RankFile != "":
		told = "-rankfile " + ShellQuote(j.RankFile)
	case j.RankMap != "":
		told = s.spellingOf("rankmap")
	case m.Seq:
		told = s.spellingOf("map-by")
	default:
		return
	}
	if j.RankBy.Text != "" {
		s.addConflict(s.spellingOf("rank-by"), told)
	}
	if !m.Seq && (m.PerObject > 0 || m.Span || m.Level == pin.ByNode || j.RankFile != "" && (m.Level > pin.BySlot || m.PEList != nil)) {
		s.addConflict(s.spellingOf("map-by"), told)
	}
	if j.RankFile != "" && j.BindTo.Text != "" && !j.BindTo.None {
		s.addConflict(s.spellingOf("bind-to"), told)
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
	j.ReportBindings = j.ReportBindings || b.Report || j.Displays("bind")
	if b.Level == pin.ByThread && b.Width > 0 {
		j.Threads = true // they are counted
	}
	if j.MapBy.NoThread && j.Threads {
		s.addConflict(by, s.spellingOf("map-by"))
	}
}

// mergeWidth gives every rank as many CPUs as pe=N or a count of cores says.
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
		section := &s.line.Apps[i]
		if g, given := section.Origin("tpp"); given && g.Value != strconv.Itoa(width) {
			s.addConflict(by, g.String())
			return
		}
		section.TPP = strconv.Itoa(width)
	}
}

// checkGPUOptions refuses lines that say twice which GPUs ranks see: the plan's choice would hide the
// user's, or the other way round. What is merely in the environment is taken for what all
// ranks may use, or belongs to another host.
func (s *layoutMerger) checkGPUOptions() {
	for _, section := range s.line.Apps {
		option, given := section.Origin("gpus-per-proc")
		if !given {
			continue
		}
		for _, said := range []struct {
			option string
			vars   []EnvVar
		}{{"-genv", s.line.Job.GEnv}, {"--export", s.line.Job.Export.Vars}, {"-env", section.Env}, {"-x", section.X}} {
			for _, v := range said.vars {
				if slices.Contains(gpu.Variables, v.Name) {
					s.addConflict(option.String(), said.option+" "+v.Name)
				}
			}
		}
	}
}
