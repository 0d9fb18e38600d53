/*
Package stage is a feature: it copies files to the nodes of a job before its ranks start, and removes them at its end
(--stage; doc/adr/0009). If the files are on the machine already, it makes links to them.
*/
package stage
