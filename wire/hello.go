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

func (m *Hello) Fields(c *Codec) {
	c.Num(&m.Version, Range{"version", 0, math.MaxInt32})
	c.Word(&m.Build, "build")
	c.Word(&m.Release, "release")
	c.Word(&m.Host, "host name")
	c.Num(&m.PID, pidRange)
}

// NodeInfo is the second message of a helper. It describes the machine and its load.
type NodeInfo struct {
	Probe job.Probe
	Err   string // why the machine could not be examined; if set, Probe is zero
}

func (m *NodeInfo) Fields(c *Codec) {
	c.probe(&m.Probe)
	c.Sentence(&m.Err, "error")
}
