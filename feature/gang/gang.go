/*
Package gang is the feature of mpiexec that lets jobs which share CPUs run in turns (--gang). Such a job is a gang:
all its ranks run, or all are stopped. Package turns decides which gang runs in which slice of time. Each helper
applies the decision to the ranks of its node. The gangs exchange no messages. They learn of each other from claims:
records, in a directory on each node, of the CPUs that each job uses. A gang's party is a number from 0 to P-1 that
decides which slices belong to the gang.

	plan: CPUs and a party --Prepare--> claim with party, P and slice
	                                      |
	helper: claims of its node -----------'  first, and at every change
	   |      competitors = gangs that share a CPU
	   |  Competition ------> mpiexec: union of all nodes
	   |  <------ Competitors ---'  |
	   v                            '--> the job's clock stands still while ranks are held
	schedule --> hold or release the ranks with the reason "gang"

	schedule         schedule.go, pure
	the rule         remshell/job/turns, pure
	placement        remshell/plan, gang.go
*/
package gang
