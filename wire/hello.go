package wire

import (
	"math"

	"remshell/job"
)

/*
The first messages of a helper, after Magic.

	mpiexec                                      helper
	   | <----------------------------------- Hello   version, build
	   | <-------------------------------- NodeInfo   CPUs, memory, GPUs, load
*/

// Hello is the first message of a helper.
type Hello struct {
	Version int
	Build   string // hash of the binary, see package transport
	Release string // version number for people
	Host    string // the host name that the node has on itself
	PID     int
}

func (m *Hello) fields(c *codec) {
	c.num(&m.Version, valueRange{"version", 0, math.MaxInt32})
	c.word(&m.Build, "build")
	c.word(&m.Release, "release")
	c.word(&m.Host, "host name")
	c.num(&m.PID, pidRange)
}

// NodeInfo describes the machine and its load.
type NodeInfo struct {
	Probe job.Probe
	Err   string // why the machine could not be examined; if set, Probe is zero
}

func (m *NodeInfo) fields(c *codec) {
	c.probe(&m.Probe)
	c.sentence(&m.Err, "error")
}
