module mqlab/example

go 1.21

require github.com/go-stomp/stomp/v3 v3.1.5
