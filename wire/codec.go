package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/pmiserver"
)

var errShort = errors.New("message ends early")

// A codec walks the fields of a message in their order and either writes each
// to buf or reads it from there. One list of fields per message thus serves both
// directions, and they cannot disagree.
type codec struct {
	buf     []byte
	reading bool
	err     error
}

func (c *codec) num(p *int) {
	n := int64(*p)
	c.num64(&n)
	*p = int(n)
}

func (c *codec) num64(p *int64) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, *p)
		return
	}
	n, size := binary.Varint(c.buf)
	if size <= 0 {
		c.fail(errShort)
		return
	}
	*p, c.buf = n, c.buf[size:]
}

// count is a length: never negative, and never more than the bytes that are left,
// since every element takes one at least. So a broken frame cannot make us
// allocate more than it has bytes.
func (c *codec) count(n int) int {
	c.num(&n)
	if c.reading && (n < 0 || n > len(c.buf)) {
		c.fail(fmt.Errorf("length %d with %d bytes left", n, len(c.buf)))
		return 0
	}
	return n
}

func (c *codec) bytes(p *[]byte) {
	n := c.count(len(*p))
	if !c.reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if c.err == nil {
		*p, c.buf = c.buf[:n:n], c.buf[n:]
	}
}

func (c *codec) text(p *string) {
	n := c.count(len(*p))
	if !c.reading {
		c.buf = append(c.buf, *p...)
		return
	}
	if c.err == nil {
		*p, c.buf = string(c.buf[:n]), c.buf[n:]
	}
}

func (c *codec) flag(p *bool) {
	n := 0
	if *p {
		n = 1
	}
	c.num(&n)
	*p = n != 0
}

func (c *codec) time(p *time.Duration) { c.num64((*int64)(p)) }

// moment walks a time to the nanosecond, without its zone; the zero time stays so.
func (c *codec) moment(p *time.Time) {
	n := int64(0)
	if !p.IsZero() {
		n = p.UnixNano()
	}
	c.num64(&n)
	if c.reading && n != 0 {
		*p = time.Unix(0, n)
	}
}

func (c *codec) float(p *float64) {
	n := int64(math.Float64bits(*p))
	c.num64(&n)
	*p = math.Float64frombits(uint64(n))
}

func (c *codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.buf = nil
}

// list walks a list, each element by the function given.
func list[T any](c *codec, p *[]T, each func(*codec, *T)) {
	n := c.count(len(*p))
	if c.reading && n > 0 {
		*p = make([]T, n)
	}
	for i := range *p {
		each(c, &(*p)[i])
	}
}

func (c *codec) texts(p *[]string) { list(c, p, (*codec).text) }
func (c *codec) nums(p *[]int)     { list(c, p, (*codec).num) }

func (c *codec) env(e *job.Env) {
	c.flag(&e.Bare)
	c.texts(&e.Dirs)
	c.texts(&e.Set)
	c.texts(&e.Unset)
}

func (c *codec) app(a *job.App) {
	c.texts(&a.Argv)
	c.text(&a.Dir)
	c.texts(&a.Path)
	c.env(&a.Env)
	c.num(&a.GPUs)
}

func (c *codec) command(p *pmiserver.Command) {
	c.texts(&p.Argv)
	c.num(&p.Count)
	list(c, &p.Info, (*codec).pair)
}

func (c *codec) pair(p *pmiserver.Pair) {
	c.text(&p.Key)
	c.text(&p.Value)
}

func (c *codec) rank(r *job.RankPlan) {
	c.num(&r.Rank)
	c.num(&r.Local)
	c.num(&r.App)
	c.nums(&r.Slots)
	c.nums(&r.Held)
	c.nums(&r.CPUs)
	c.nums(&r.Mems)
	c.text((*string)(&r.MemMode))
	list(c, &r.GPUs, (*codec).gpu)
}

func (c *codec) gpu(g *gpu.GPU) {
	c.text((*string)(&g.Vendor))
	c.num(&g.Index)
	c.nums(&g.Tiles)
	c.text(&g.Address)
	c.num(&g.NUMA)
	c.text(&g.Driver)
}

func (c *codec) exit(e *job.Exit) {
	c.num(&e.Rank)
	c.num(&e.Code)
	c.num(&e.Signal)
	c.flag(&e.Core)
	c.flag(&e.Asked)
	c.num((*int)(&e.PMI))
	c.usage(&e.Usage)
	c.text(&e.Hint)
	c.text(&e.Built)
}

func (c *codec) usage(u *job.Usage) {
	c.time(&u.Wall)
	c.time(&u.User)
	c.time(&u.System)
	c.num64(&u.MaxRSS)
}

func (c *codec) orphan(o *job.Orphan) {
	c.num(&o.Rank)
	c.usage(&o.Usage)
}

func (c *codec) rankState(s *job.RankState) {
	c.num(&s.Rank)
	c.text(&s.Life)
	c.num((*int)(&s.PMI))
	c.num(&s.Barrier)
	c.time(&s.CPU)
	c.text(&s.Sleep)
	c.text(&s.Kind)
}

func (c *codec) softLimit(l *job.SoftLimit) {
	c.num(&l.Resource)
	c.num64(&l.Soft)
}

func (c *codec) core(p *pin.Core) {
	c.nums(&p.CPUs)
	c.nums(&p.Shut)
	c.num(&p.NUMA)
	c.num(&p.Package)
	c.num(&p.L3)
	c.num(&p.L2)
	c.text((*string)(&p.Kind))
}

func (c *codec) probe(p *job.Probe) {
	c.text(&p.Hostname)
	c.text(&p.Arch)
	c.text(&p.Kernel)
	c.text(&p.Identity)
	list(c, &p.Topology.Cores, (*codec).core)
	c.load(&p.Load)
	c.num64(&p.Memory.Total)
	c.num64(&p.Memory.Available)
	c.moment(&p.Clock)
	c.text(&p.Model)
	list(c, &p.GPUs, (*codec).gpu)
	c.num(&p.Barred)
}

func (c *codec) load(p *[3]float64) {
	for i := range p {
		c.float(&p[i])
	}
}

func (c *codec) claim(p *job.Claim) {
	c.text((*string)(&p.Job))
	c.text((*string)(&p.Inside))
	c.num(&p.UID)
	c.text(&p.User)
	c.text(&p.From)
	c.text(&p.Node)
	c.num(&p.Nodes)
	c.num(&p.Size)
	c.flag(&p.Exclusive)
	c.moment(&p.Since)
	c.text(&p.Command)
	list(c, &p.Ranks, (*codec).seat)
	c.num(&p.PID)
	c.flag(&p.Idle)
}

func (c *codec) seat(p *job.Seat) {
	c.num(&p.Rank)
	c.nums(&p.CPUs)
	c.texts(&p.GPUs)
}

func (c *codec) ticket(p *job.Ticket) {
	c.num64(&p.Number)
	c.text((*string)(&p.Job))
	c.num(&p.UID)
	c.text(&p.User)
	c.text(&p.From)
	c.num(&p.Size)
	c.moment(&p.Since)
	c.text(&p.Summary)
	c.num(&p.CPUs)
	c.flag(&p.Exclusive)
	c.num(&p.PerNode)
	c.flag(&p.Shares)
	c.text(&p.Nodes)
	c.num(&p.PID)
}
