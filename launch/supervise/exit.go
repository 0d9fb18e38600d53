package supervise

import "remshell/job"

// ExitCode is the code mpiexec leaves with (EXIT-2, EXIT-3).
func (s *State) ExitCode() int {
	if s.Cause == nil {
		return job.ExitOK
	}
	code, success := s.code()
	if s.Cause.ours() {
		code = job.OurCode(s.rules.Ends.Ours)
	}
	return job.Clamp(code, success, s.rules.Ends.Ours)
}

// code is that of the cause, or what the ranks' own come to.
func (s *State) code() (code int, success bool) {
	code = s.Cause.Code
	if s.Cause.Rank >= 0 {
		switch s.rules.Ends.Status {
		case "rank0":
			return s.ofRank0()
		case "max":
			code = s.fold(func(a, b int) int { return max(a, b) })
		case "or":
			code = s.fold(func(a, b int) int { return a | b })
		}
	}
	return code, code == 0 && s.Cause.success()
}

// fold puts the codes of the ranks together that ended by themselves.
func (s *State) fold(with func(a, b int) int) int {
	code := 0
	for _, e := range s.Exits {
		if !s.stoppedByUs(e) {
			code = with(code, e.Status())
		}
	}
	if code == 0 { // the cause is known otherwise, as an abort is
		return s.Cause.Code
	}
	return code
}

// ofRank0 is the code of rank 0, if it has one: who failed without any did not succeed.
func (s *State) ofRank0() (code int, success bool) {
	e := s.Exit(0)
	if e == nil || e.Status() == 0 && s.Cause.Rank == 0 {
		return s.Cause.Code, s.Cause.success()
	}
	return e.Status(), e.Status() == 0
}

// stoppedByUs reports whether a rank ended because we told it to.
func (s *State) stoppedByUs(e *job.Exit) bool { return e.Asked && e.Rank != s.Cause.Rank }
