package cli

import "remshell/job"

func streamsOf(j JobOptions) (s job.Streams) {
	if j.Label {
		s.Out.Label, s.Err.Label = "[%r] ", "[%r] "
	}
	return s
}
