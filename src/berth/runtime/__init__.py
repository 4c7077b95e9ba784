"""The shell: reflectors feed the engine, its instructions become API calls, and the process is led and measured."""
