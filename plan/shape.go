package plan

import (
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/text"
)

// A formation is the nodes that hold a section in a shape, and how many ranks each (which-hosts.md
// 9.1):
//
//	-n 10 --shape 4    room 8 3 8    a: 4, c: 4, b: 2    what is left goes behind the last that is
//	                        a b c                        full, else to the first that was passed over
type formation struct {
	used []int // candidates in the order of their ranks
	each []int // ranks, by index in used
	left int   // ranks for which there is no node
}

// form finds the nodes for n ranks among candidates in filling order.
func form(order []int, room []int, n, shape int) (f formation) {
	passed := slices.Clone(order)
	full, behind := n/shape, 0
	for k, i := range order {
		if len(f.used) < full && room[i] >= shape {
			f.add(i, shape)
			passed[k] = -1
			behind = k + 1
		}
	}
	if f.left = n - len(f.used)*shape; f.left == 0 || f.left >= shape {
		return f
	}
	for _, i := range slices.Concat(passed[behind:], passed[:behind]) {
		if i >= 0 && room[i] >= f.left {
			f.add(i, f.left)
			f.left = 0
			break
		}
	}
	return f
}

func (f *formation) add(candidate, ranks int) {
	f.used, f.each = append(f.used, candidate), append(f.each, ranks)
}

// inShape is how many ranks a node of a room counts for.
func inShape(app job.App, room int) int {
	if app.Shape > 0 {
		return min(room, app.Shape)
	}
	return room
}

// shaped places n ranks of a section in its shape.
func (s *placement) shaped(area *eligible, a, n int) *Error {
	if failed := s.fewGPUs(area, n); failed != nil {
		return failed
	}
	order := s.onward(area)
	f := form(order, area.room, n, area.app.Shape)
	if f.left > 0 && s.mayShare(area, n) {
		s.over = true
		if f = form(order, s.bounds(area, n), n, area.app.Shape); f.left > 0 {
			return area.misshapen(Limits, f, n)
		}
	}
	if f.left > 0 {
		return area.misshapen(NotEnough, f, n)
	}
	quota := make([]int, len(s.candidates))
	for k, i := range f.used {
		quota[i] = f.each[k]
	}
	all := s.order
	s.order, s.at = f.used, 0
	s.walk(area, a, n, quota)
	s.order = all
	last := s.assigned[len(s.assigned)-1].candidate
	if s.at = slices.Index(all, last); s.req.Loop {
		s.at = (s.at + 1) % len(all)
	}
	return nil
}

// onward lists the candidates of an area in filling order, from where the walk has stopped.
func (s *placement) onward(area *eligible) []int {
	may := make([]bool, len(s.candidates))
	for _, i := range area.candidates {
		may[i] = true
	}
	order := distinct(slices.Concat(s.order[s.at:], s.order[:s.at]), len(s.candidates))
	return slices.DeleteFunc(order, func(i int) bool { return !may[i] })
}

// shapeRoom is how many ranks nodes have room for that are filled in a shape: those that hold it
// count so many, the others nothing.
func (a *eligible) shapeRoom() int {
	room := 0
	for _, i := range a.candidates {
		if a.room[i] >= a.app.Shape {
			room += a.app.Shape
		}
	}
	return room
}

// misshapen is the refusal when a shape leaves ranks over.
func (a *eligible) misshapen(code string, f formation, n int) *Error {
	placed := 0
	for _, ranks := range f.each {
		placed += ranks
	}
	return &Error{Code: code, Wanted: n, Free: placed, Way: "start fewer ranks, name more hosts, or leave out --shape",
		Text: fmt.Sprintf("%s in a shape of %d: %d placed, %d left over on %s (%s)", text.Count(n, "rank"), a.app.Shape,
			placed, f.left, text.Count(len(a.candidates), "node"), hostlist.Brief(a.names))}
}
