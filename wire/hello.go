package wire

import (
	"math"

	"remshell/job"
)

/*
How a helper begins, behind Magic.

	mpiexec                                      helper
	   | <----------------------------------- Hello   version, build
	   | <-------------------------------- NodeInfo   CPUs, memory, GPUs, load
*/

// Hello is the first message of a helper.
type Hello struct {
	Version int
	Build   string // identity of the binary, see package transport
	Release string // its version for people
	Host    string // the node's own name for itself
	PID     int
}

func (m *Hello) fields(c *codec) {
	c.num(&m.Version, valueRange{"version", 0, math.MaxInt32})
	c.word(&m.Build, "build")
	c.word(&m.Release, "release")
	c.word(&m.Host, "host name")
	c.num(&m.PID, pidRange)
}

// NodeInfo tells what the machine is and how busy.
type NodeInfo struct {
	Probe job.Probe
	Err   string // the machine could not be read; Probe is then void
}

func (m *NodeInfo) fields(c *codec) {
	c.probe(&m.Probe)
	c.sentence(&m.Err, "error")
}
