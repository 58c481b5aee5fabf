module tare/testbed

go 1.26.0
