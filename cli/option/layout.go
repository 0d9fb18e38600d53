package option

import (
	"fmt"
	"slices"
	"strconv"

	"remshell/fault"
	"remshell/gpu"
	"remshell/pin"
)

// This file joins the many ways to ask for a mapping or binding: what --map-by, --rank-by
// and --bind-to say of other options' matters becomes these options, and the options of
// other launchers become those three.

// MergeLayout makes these three of all that a line says of a layout. An error is of type
// UsageErrors.
func (l *Line) MergeLayout() error {
	s := layoutMerger{line: l}
	s.aliases()
	s.mapping()
	s.binding()
	s.width()
	s.devices()
	if len(s.errs) > 0 {
		return atMostTen(s.errs)
	}
	return nil
}

// A layoutMerger gathers contradictions on its way.
type layoutMerger struct {
	line *Line
	errs []error
}

// say sets an option that is not given; another value is a contradiction.
func (s *layoutMerger) say(field *string, value, option, by string) {
	if *field != "" && *field != value {
		s.clash(by, s.spelled(option))
		return
	}
	*field = value
}

func (s *layoutMerger) clash(a, b string) {
	s.errs = append(s.errs, &fault.Error{Text: fmt.Sprintf("%s contradicts %s", a, b), Remedy: "keep one"})
}

// spelled is a job option as it was given.
func (s *layoutMerger) spelled(option string) string {
	if g, given := s.line.Origin(option); given {
		return g.String()
	}
	return "--" + option
}

// aliases are words of other launchers.
func (s *layoutMerger) aliases() {
	j := &s.line.Job
	if order := map[string]string{"up": "slots", "down": "-slots"}[j.OrderNodes]; order != "" {
		s.say(&j.Sort, order, "sort", s.spelled("order-nodes"))
	}
	if j.CPUBind == "" {
		return
	}
	word := map[string]string{"threads": "hwthread", "cores": "core", "sockets": "socket", "none": "none"}[j.CPUBind]
	if j.BindTo.Text != "" && j.BindTo.Text != word {
		s.clash(s.spelled("cpu-bind"), s.spelled("bind-to"))
		return
	}
	j.BindTo.UnmarshalText([]byte(word))
}

func (s *layoutMerger) mapping() {
	j, m := &s.line.Job, s.line.Job.MapBy
	by := s.spelled("map-by")
	if m.Level == pin.ByNode && m.Each == 0 {
		s.say(&j.Loop, "yes", "loop-nodes-first", by)
	}
	if m.Share {
		s.say(&j.Overbook, "share", "overbook", by)
	}
	if m.NoShare {
		s.say(&j.Overbook, "no", "overbook", by)
	}
	j.NoLocal = j.NoLocal || m.NoLocal
	if m.NoThread && j.Threads {
		s.clash(by, s.spelled("use-hwthread-cpus"))
	}
	j.Threads = j.Threads || m.Threads
	if m.File != "" && !m.Seq {
		s.say(&j.RankFile, m.File, "rankfile", by)
	}
	if m.Span && j.Loop == "yes" {
		s.clash(by, s.spelled("loop-nodes-first"))
	}
	s.rankPlaces()
}

// rankPlaces refuses policies beside the exact place of each rank.
func (s *layoutMerger) rankPlaces() {
	j := &s.line.Job
	m := j.MapBy
	told := ""
	switch {
	case j.RankFile != "":
		told = "-rankfile " + Quote(j.RankFile)
	case j.RankMap != "":
		told = s.spelled("rankmap")
	case m.Seq:
		told = s.spelled("map-by")
	default:
		return
	}
	if j.RankBy.Text != "" {
		s.clash(s.spelled("rank-by"), told)
	}
	if !m.Seq && (m.Each > 0 || m.Span || m.Level == pin.ByNode || j.RankFile != "" && (m.Level > pin.BySlot || m.Only != nil)) {
		s.clash(s.spelled("map-by"), told)
	}
	if j.RankFile != "" && j.BindTo.Text != "" && !j.BindTo.None {
		s.clash(s.spelled("bind-to"), told)
	}
}

func (s *layoutMerger) binding() {
	j, b := &s.line.Job, s.line.Job.BindTo
	if mem := j.Memory; mem.Mode == pin.NoMemory {
		s.say(&j.MemBind, "no", "mem-bind", s.spelled("membind"))
	} else if mem.Text != "" {
		s.say(&j.MemBind, "yes", "mem-bind", s.spelled("membind"))
	}
	by := s.spelled("bind-to")
	switch {
	case b.None:
		s.say(&j.Pin, "no", "pin", by)
	case b.Text != "" && j.Pin == "no":
		s.clash(by, s.spelled("pin"))
	}
	j.ReportBindings = j.ReportBindings || b.Report || j.Displays("bind")
	if b.Level == pin.ByThread && b.Width > 0 {
		j.Threads = true // they are counted
	}
	if j.MapBy.NoThread && j.Threads {
		s.clash(by, s.spelled("map-by"))
	}
}

// width gives every rank as many CPUs as pe=N or a count of cores says.
func (s *layoutMerger) width() {
	m, b := s.line.Job.MapBy, s.line.Job.BindTo
	width, by := m.Width, s.spelled("map-by")
	if b.Width > 0 {
		if width > 0 && width != b.Width {
			s.clash(s.spelled("bind-to"), by)
			return
		}
		width, by = b.Width, s.spelled("bind-to")
	}
	if width == 0 {
		return
	}
	s.line.WidthFrom = by
	for i := range s.line.Sections {
		section := &s.line.Sections[i]
		if g, given := section.Origin("tpp"); given && g.Value != strconv.Itoa(width) {
			s.clash(by, g.String())
			return
		}
		section.TPP = strconv.Itoa(width)
	}
}

// devices refuses lines that say twice which GPUs ranks see: the plan's choice would hide the
// user's, or the other way round. What is merely in the environment is taken for what all
// ranks may use, or belongs to another host.
func (s *layoutMerger) devices() {
	for _, section := range s.line.Sections {
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
					s.clash(option.String(), said.option+" "+v.Name)
				}
			}
		}
	}
}
