/*
Package nodeset has the sets of nodes among which a job chooses: what is asked of them, what the sets
are, and which of them is taken.

	what is said --Resolve--> Setting      which counts, of flags, variables, class, cluster

Nothing here knows of jobs or of a cluster: nodes are values with rooms and speeds, requests are words.
A set is never kept. It is made for each request, of the nodes that meet all else.
*/
package nodeset
